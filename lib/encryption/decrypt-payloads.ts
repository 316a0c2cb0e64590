import { types } from 'node:util';
import { inCleanScope } from '../time/async-scope.js';
import { stopwatch, within, type Clock } from '../time/clock.js';
import {
  encryptionContext,
  isRequired,
  KEY_ID_HEADER,
  plainOptions,
  type EncryptionContext,
  type PayloadEncryption,
} from '../message/encryption.js';
import { encodeHeaders } from '../message/headers.js';
import { isEncrypted, OutboxMessage, type StoredMessage } from '../outbox-message.js';
import { keyFailure, keyName, messageFailure, speaksOfTheMessage } from './decryption-failures.js';
import { KeyServices, Turns } from './key-services.js';
import { DecryptedBatch, type Opened } from './decrypted-batch.js';
import type { Publish, TransportWrapper } from '../options/transport-wrapper.js';
import { OutboxError } from '../outbox.errors.js';
import type { OutboxTransport, PublishContext, PublishFailure } from '../transports/transport.js';

/**
 * Puts decryption before `publish` of a transport: a relay knows of no keys. To it the service that keeps a key is one more
 * destination of the messages under this key.
 */
export function decrypting(encryption: PayloadEncryption | undefined, clock: Clock): TransportWrapper {
  return (name, definition) => ({
    ...definition,
    create: async (...dependencies) => {
      const transport = await definition.create(...dependencies);
      if (typeof transport?.publish !== 'function') return transport; // refused by whoever asked for it
      const isWrapped = decrypters.has(transport);
      decrypters.set(transport, new PayloadDecrypter(name, encryption, clock, transport));
      if (isWrapped) return transport;
      const [publish, destinationOf] = [transport.publish.bind(transport), transport.destinationOf?.bind(transport)];
      transport.publish = async (batch, context) => decrypters.get(transport)?.publish(batch, context, publish);
      transport.destinationOf = (message) => {
        const { encryptionKeyId: keyId } = message;
        return [destinationOf?.(message) ?? [], keyId === null ? [] : keyName(keyId)].flat();
      };
      return transport;
    },
  });
}

/** Who decrypts for a transport now: a definition may give one object again, and so may that of a later application. */
const decrypters = new WeakMap<OutboxTransport, PayloadDecrypter>();

/**
 * Hands a transport what it may have: what is stored encrypted is decrypted, or carries the id of its key. Each `decrypt` has a
 * time of its own, and those of its neighbours that are open by then do not wait for it.
 */
class PayloadDecrypter {
  private readonly keys: KeyServices;
  private readonly turns = new Turns();

  constructor(
    /** Of the transport. */
    private readonly name: string,
    private readonly encryption: PayloadEncryption | undefined,
    private readonly clock: Clock,
    private readonly transport: Pick<OutboxTransport, 'receipt' | 'atomicRuns'>,
  ) {
    this.keys = new KeyServices(clock);
  }

  /** @param batch in which what is decrypted takes the place of what was read: what an error quotes of it is then known */
  publish(batch: readonly OutboxMessage[], context: PublishContext, send: Publish): ReturnType<Publish> {
    // Else all are published as they were read.
    const concerns = (this.encryption?.required ?? false) !== false || batch.some(isEncrypted);
    return concerns ? this.open(batch as OutboxMessage[], context, send) : send(batch, context);
  }

  private async open(batch: OutboxMessage[], context: PublishContext, send: Publish): Promise<void> {
    const elapsed = stopwatch(this.clock);
    const time = context.timeout;
    const left = (): number => {
      if (elapsed() >= time) throw new OutboxError('PUBLISH_TIMEOUT', 'Decryption took all the time of the publish.');
      return time - elapsed();
    };
    const opened = new DecryptedBatch(batch, this.transport.atomicRuns, send);
    const opening = this.openAll(batch, opened, time * DECRYPT_SHARE);
    await within(this.clock, time * PATIENCE, opening);
    await opened.publish(context, left);
    if (opened.isWhole) return;
    await opening;
    await opened.publish(context, left);
  }

  /** Until all are open, or the time is up. */
  private async openAll(batch: OutboxMessage[], opened: DecryptedBatch, timeout: number): Promise<void> {
    const inTime = { late: (): void => undefined };
    const late = new Promise<undefined>((resolve) => (inTime.late = () => resolve(undefined)));
    const cancel = this.clock.after(timeout, inTime.late);
    const open = async (message: OutboxMessage, index: number): Promise<void> => {
      const one = await this.openOne(message, late, timeout);
      if (!('ok' in one)) batch[index] = one;
      opened.set(index, one);
    };
    await Promise.all(batch.map(open)).finally(cancel);
  }

  private async openOne(message: OutboxMessage, late: Promise<undefined>, timeout: number): Promise<Opened> {
    if (message.body === null) return message;
    try {
      if (!isEncrypted(message)) return this.inClear(message);
      const keyId = message.encryptionKeyId;
      if (keyId === null) return messageFailure(message, 'its options name no key');
      if (this.encryption?.deliver === 'encrypted' && this.transport.receipt !== 'handler')
        return labelled(message, keyId);
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
    if ('failure' in asked) return this.later(asked.failure);
    try {
      const body = await Promise.race([this.plaintextOf(message, keyId, context), late]);
      if (body === undefined) return this.failed(message, keyId, asked, keyFailure(keyId, tooSlow(timeout)));
      this.keys.opened(keyId, message.id);
      return copyOf(message, { body, optionsJson: plainOptions(message.options) });
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
    if (whose === 'key') return this.later(failure);
    return messageFailure(message, 'others of its key can be decrypted', { cause: failure.error });
  }

  private later(failure: PublishFailure): PublishFailure {
    return { ...failure, retryIn: this.turns.next(this.clock.monotonic()) };
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

const tooSlow = (timeout: number): Error =>
  new Error(`encryption.decrypt() did not answer within ${Math.round(timeout)} ms.`);

/** Of the time for a batch, what one `decrypt` has. */
const DECRYPT_SHARE = 1 / 2;
/** Of the time for a batch, how long those that are open wait for the others. */
const PATIENCE = 1 / 20;
