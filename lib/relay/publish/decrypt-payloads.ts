import { types } from 'node:util';
import { inCleanScope } from '../../time/async-scope.js';
import { within, type Clock } from '../../time/clock.js';
import {
  encryptionContext,
  isRequired,
  KEY_ID_HEADER,
  type EncryptionContext,
  type PayloadEncryption,
} from '../../message/encryption.js';
import { encodeHeaders } from '../../message/headers.js';
import { ENCRYPTION_OPTION, isEncrypted, OutboxMessage, type StoredMessage } from '../../outbox-message.js';
import { keyFailure, messageFailure, speaksOfTheMessage } from './decryption-failures.js';
import { KeyServices } from './key-services.js';
import { DecryptedBatch, type Opened, type TimedContext } from './decrypted-batch.js';
import type { OutboxTransport, PublishFailure } from '../../transports/transport.js';

/**
 * Hands a transport what it may have: what is stored encrypted is decrypted, or carries the id of its key. Each `decrypt` has a
 * time of its own, and those of its neighbours that are open by then do not wait for it.
 */
export class PayloadDecrypter {
  readonly keys: KeyServices;

  constructor(
    /** Of the transport. */
    readonly name: string,
    readonly encryption: PayloadEncryption | undefined,
    readonly clock: Clock,
  ) {
    this.keys = new KeyServices(clock);
  }

  /** Whether any of these is not published as it is read. */
  concerns(batch: readonly OutboxMessage[]): boolean {
    return (this.encryption?.required ?? false) !== false || batch.some(isEncrypted);
  }

  /** @param batch in which what is decrypted takes the place of what was read */
  async publish(batch: OutboxMessage[], transport: OutboxTransport, context: TimedContext): Promise<void> {
    const time = context.left();
    const opened = new DecryptedBatch(batch, transport);
    const opening = this.openAll(batch, opened, transport.receipt === 'handler', time * DECRYPT_SHARE);
    await within(this.clock, time * PATIENCE, opening);
    await opened.publish(context);
    if (opened.isWhole) return;
    await opening;
    await opened.publish(context);
  }

  /** Until all are open, or the time is up. */
  private async openAll(
    batch: OutboxMessage[],
    opened: DecryptedBatch,
    isHandler: boolean,
    timeout: number,
  ): Promise<void> {
    const inTime = { late: (): void => undefined };
    const late = new Promise<undefined>((resolve) => (inTime.late = () => resolve(undefined)));
    const cancel = this.clock.after(timeout, inTime.late);
    const openOne = async (message: OutboxMessage, index: number): Promise<void> => {
      const one = await this.open(message, isHandler, late, timeout);
      if (!('ok' in one)) batch[index] = one;
      opened.set(index, one);
    };
    await Promise.all(batch.map(openOne)).finally(cancel);
  }

  private async open(
    message: OutboxMessage,
    isHandler: boolean,
    late: Promise<undefined>,
    timeout: number,
  ): Promise<Opened> {
    if (message.body === null) return message;
    try {
      if (!isEncrypted(message)) return this.inClear(message);
      const keyId = message.encryptionKeyId;
      if (keyId === null) return messageFailure(message, 'its options name no key');
      if (this.encryption?.deliver === 'encrypted' && !isHandler) return labelled(message, keyId);
      return await this.decrypt(message, keyId, late, timeout);
    } catch (error) {
      return messageFailure(message, 'what is stored beside its payload cannot be read', { cause: error });
    }
  }

  private inClear(message: OutboxMessage): Opened {
    const { encryption } = this;
    if (encryption === undefined) return message;
    try {
      if (!inCleanScope(() => isRequired(encryption, () => this.contextOf(message)))) return message;
    } catch (error) {
      return messageFailure(message, 'encryption.required() threw', { cause: error });
    }
    return messageFailure(message, 'its payload is in clear, and `encryption.required` forbids that', { final: true });
  }

  private async decrypt(
    message: OutboxMessage,
    keyId: string,
    late: Promise<undefined>,
    timeout: number,
  ): Promise<Opened> {
    const context = this.contextOf(message);
    const asked = this.keys.ask(keyId, message.id);
    if ('failure' in asked) return asked.failure;
    try {
      const body = await Promise.race([this.plaintextOf(message, keyId, context), late]);
      if (body === undefined) return this.failed(message, keyId, asked, keyFailure(keyId, tooSlow(timeout)));
      this.keys.opened(keyId, message.id);
      return copyOf(message, { body, optionsJson: plainOptions(message) });
    } catch (error) {
      if (!speaksOfTheMessage(error)) return this.failed(message, keyId, asked, keyFailure(keyId, error));
      this.keys.answered(keyId);
      return messageFailure(message, 'encryption.decrypt() threw', { cause: error });
    }
  }

  private async plaintextOf(message: OutboxMessage, keyId: string, context: EncryptionContext): Promise<Buffer> {
    const { encryption } = this;
    if (encryption === undefined)
      throw new Error('This process has no option `encryption`. Give it the one of who enqueues.');
    const encrypted = { keyId, ciphertext: message.payload as Buffer };
    const body: unknown = await inCleanScope(() => encryption.decrypt(encrypted, context));
    if (!types.isUint8Array(body)) throw new Error('encryption.decrypt() gave no bytes.');
    return Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  }

  private failed(
    message: OutboxMessage,
    keyId: string,
    asked: { readonly count: number },
    failure: PublishFailure,
  ): PublishFailure {
    const whose = this.keys.failed(keyId, message.id, asked, failure);
    if (whose === 'key') return failure;
    return messageFailure(message, 'others of its key can be decrypted', { cause: failure.error });
  }

  private contextOf(message: OutboxMessage): EncryptionContext {
    const { id, type, version, topic, key, contentType, optionsJson: options, headersJson: headers } = message;
    return encryptionContext({ id, type, version, topic, key, contentType, transport: this.name, options, headers });
  }
}

function labelled(message: OutboxMessage, keyId: string): OutboxMessage {
  return copyOf(message, { headersJson: encodeHeaders({ ...message.headers, [KEY_ID_HEADER]: keyId }) });
}

function copyOf(message: OutboxMessage, changed: Partial<StoredMessage>): OutboxMessage {
  return new OutboxMessage({ ...message, ...changed });
}

/** Without what says that the payload is encrypted. */
function plainOptions({ options }: OutboxMessage): string | null {
  const { [ENCRYPTION_OPTION]: _, ...rest } = options;
  return Object.keys(rest).length === 0 ? null : JSON.stringify(rest);
}

const tooSlow = (timeout: number): Error =>
  new Error(`encryption.decrypt() did not answer within ${Math.round(timeout)} ms.`);

/** Of the time for a batch, what one `decrypt` has. */
const DECRYPT_SHARE = 1 / 2;
/** Of the time for a batch, how long those that are open wait for the others. */
const PATIENCE = 1 / 20;
