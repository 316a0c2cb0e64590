import { types } from 'node:util';
import { encryptionContext, KEY_ID_HEADER, type PayloadEncryption } from '../encryption.js';
import { encodeHeaders } from '../header-codec.js';
import { ENCRYPTION_OPTION, isEncrypted, OutboxMessage, type StoredMessage } from '../message.js';
import { unquoted } from '../observe/error-text.js';
import { OutboxError } from '../outbox.errors.js';
import type { OutboxTransport, PublishContext, PublishFailure, PublishResult } from './transport.js';

type Report = PublishContext['report'];

/**
 * A batch as a transport gets it: what is stored encrypted is decrypted, or carries the id of its key. A message that cannot
 * be decrypted has its result already; where runs of a key are published as one, what follows it in its run is not sent.
 */
export class OpenedBatch {
  readonly messages: OutboxMessage[] = [];
  /** Of each message in the batch that was given. */
  readonly indexes: number[] = [];
  readonly failures = new Map<number, PublishFailure>();

  static async of(
    batch: readonly OutboxMessage[],
    transport: Pick<OutboxTransport, 'atomicRuns' | 'receipt'>,
    encryption: PayloadEncryption | undefined,
  ): Promise<OpenedBatch> {
    const asStored = encryption?.deliver === 'encrypted' && transport.receipt !== 'handler';
    const opened = await Promise.all(
      batch.map((message) => {
        const keyId = keyIdOf(message);
        if (keyId === undefined) return message;
        if (keyId === null) return failure(message, 'its options name no key');
        return asStored ? labelled(message, keyId) : open(message, keyId, encryption);
      }),
    );
    const result = new OpenedBatch();
    const heldKeys = new Set<string>();
    opened.forEach((one, index) => {
      const { key } = batch[index] as OutboxMessage;
      if (one instanceof OutboxMessage && (key === null || !heldKeys.has(key))) {
        result.messages.push(one);
        result.indexes.push(index);
        return;
      }
      result.failures.set(index, one instanceof OutboxMessage ? behind() : one);
      if (key !== null && transport.atomicRuns) heldKeys.add(key);
    });
    return result;
  }

  /** Publishes what could be opened; results go by the indexes of the batch that was given, and quote no payload. */
  async publish(transport: OutboxTransport, { report, ...context }: PublishContext): Promise<void> {
    const told: Report = (index, result) => report(this.indexes[index] as number, this.masked(index, result));
    for (const [index, failure] of this.failures) report(index, failure);
    if (this.messages.length === 0) return;
    try {
      const results = await transport.publish(this.messages, { ...context, report: told });
      for (let index = 0; index < (results?.length ?? 0); index += 1)
        told(index, (results as readonly PublishResult[])[index] as PublishResult);
    } catch (error) {
      throw unquoted(error, this.messages);
    }
  }

  /** @internal */ masked(index: number, result: PublishResult): PublishResult {
    if (result?.ok !== false) return result;
    return { ...result, error: unquoted(result.error, [this.messages[index] as OutboxMessage]) };
  }
}

/** `undefined`: in clear. */
function keyIdOf(message: OutboxMessage): string | null | undefined {
  if (!isEncrypted(message)) return undefined;
  try {
    return Object.hasOwn(message.options, ENCRYPTION_OPTION) ? message.encryptionKeyId : undefined;
  } catch {
    return undefined; // a foreign writer's text that is no JSON
  }
}

async function open(
  message: OutboxMessage,
  keyId: string,
  encryption: PayloadEncryption | undefined,
): Promise<OutboxMessage | PublishFailure> {
  const { payload: ciphertext } = message;
  if (encryption === undefined)
    return failure(message, 'this process has no option `encryption`', undefined, 'Give it the one of who enqueues.');
  if (ciphertext === null) return message;
  try {
    const body: unknown = await encryption.decrypt({ keyId, ciphertext }, encryptionContext(message));
    if (!types.isUint8Array(body)) return failure(message, 'encryption.decrypt() gave no bytes');
    return copyOf(message, { body: asBuffer(body), optionsJson: plainOptions(message) });
  } catch (error) {
    return failure(message, 'encryption.decrypt() threw', error);
  }
}

function labelled(message: OutboxMessage, keyId: string): OutboxMessage | PublishFailure {
  try {
    return copyOf(message, { headersJson: encodeHeaders({ ...message.headers, [KEY_ID_HEADER]: keyId }) });
  } catch {
    return failure(message, 'its headers are no JSON');
  }
}

function copyOf(message: OutboxMessage, changed: Partial<StoredMessage>): OutboxMessage {
  return new OutboxMessage({ ...message, ...changed });
}

/** Without what says that the payload is encrypted. */
function plainOptions({ options }: OutboxMessage): string | null {
  const { [ENCRYPTION_OPTION]: _, ...rest } = options;
  return Object.keys(rest).length === 0 ? null : JSON.stringify(rest);
}

function failure({ id }: OutboxMessage, problem: string, cause?: unknown, hint?: string): PublishFailure {
  const details = { cause, ...(hint === undefined ? {} : { hint }) };
  const error = new OutboxError(
    'DECRYPTION_FAILED',
    `The encrypted message ${id} cannot be published: ${problem}.`,
    details,
  );
  return { ok: false, blame: 'message', error };
}

function behind(): PublishFailure {
  const error = new OutboxError('DECRYPTION_FAILED', 'An earlier message of its key could not be decrypted.');
  return { ok: false, blame: 'collateral', error };
}

const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
