import { ENCRYPTION_OPTION, type MessageOptions } from '../outbox-message.js';
import { OutboxError, type OutboxErrorDetails } from '../outbox.errors.js';
import { REPLAY_HEADER } from './replay-header.js';

/**
 * What of a message stays readable beside its encrypted payload, the same at both ends: authenticate all of it with the payload.
 * Then a ciphertext that somebody copied into another row, for another destination or with other headers, does not decrypt.
 */
export interface EncryptionContext {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly topic: string;
  readonly key: string | null;
  /** Of the payload in clear. */
  readonly contentType: string;
  /** The name that the options give it. */
  readonly transport: string;
  /** Canonical JSON, names in order: exchange, routing key, partition, whatever else says where it goes; `{}`: none. */
  readonly options: string;
  /** Canonical JSON of the headers as they are stored, without `replay-audit-id`, which a replay adds; `{}`: none. */
  readonly headers: string;
}
export interface EncryptedPayload {
  /** Stored with the message in clear, so that keys can change: 1 to 255 visible ASCII characters. */
  readonly keyId: string;
  readonly ciphertext: Uint8Array;
}

/** Payloads that nobody can read in the tables. Headers, key, topic, type and options stay in clear. */
export interface PayloadEncryption {
  /**
   * Called once per message with a payload and transport, inside the caller's transaction, which waits for it: encrypt with a
   * key that is at hand. In that transaction it must begin no savepoint and enqueue nothing: both would wait for it, and it for
   * them. `null` leaves the payload in clear. What it throws is the `cause` of an `ENCRYPTION_FAILED`; nothing is
   * written then.
   */
  encrypt(
    plaintext: Uint8Array,
    context: EncryptionContext,
  ): EncryptedPayload | null | Promise<EncryptedPayload | null>;
  /**
   * Called before each publish; has half of `publishTimeout`. What it throws is the `cause` of a `DECRYPTION_FAILED`, and an outage
   * of the key: its messages wait in their order, without an attempt, until the key answers or `retry.maxAge` ends it. Charged to
   * the message is an {@link OutboxUndecryptableError}, what OpenSSL cannot authenticate, and what failed three times
   * while others of its key got through.
   */
  decrypt(encrypted: EncryptedPayload, context: EncryptionContext): Uint8Array | Promise<Uint8Array>;
  /**
   * `encrypted`: brokers get the ciphertext, and the key's id in the header `encryption-key-id`; `decrypt` is called for
   * `@OnOutboxEvent` handlers only. Default `plain`. A message that is encrypted cannot have a header of this name.
   */
  deliver?: 'plain' | 'encrypted';
  /**
   * Which messages nobody may publish in clear: all, or those for which it says so. Such a message dies with `DECRYPTION_FAILED`,
   * whoever wrote it, and `encrypt` may not return `null` for it. A message without a payload has nothing to encrypt. Default: none.
   */
  required?: boolean | ((message: EncryptionContext) => boolean);
}

/** `decrypt` throws this where waiting is of no use, as the key was destroyed: the message is dead at once. */
export class OutboxUndecryptableError extends OutboxError {
  constructor(message = 'The key is gone.', details?: OutboxErrorDetails) {
    super('DECRYPTION_FAILED', message, details);
  }
}

/** Header of a message that is delivered as it is stored. */
export const KEY_ID_HEADER = 'encryption-key-id';

/** What both ends have of a message: the rows that are written, and those that are read. */
interface Described extends Pick<
  EncryptionContext,
  'id' | 'type' | 'version' | 'topic' | 'key' | 'contentType' | 'transport'
> {
  /** JSON as it is stored. */
  readonly options: string | null;
  readonly headers: string | null;
}

export function encryptionContext({ options, headers, ...rest }: Described): EncryptionContext {
  const { id, type, version, topic, key, contentType, transport } = rest;
  const place = {
    transport,
    options: canonical(options, ENCRYPTION_OPTION),
    headers: canonical(headers, REPLAY_HEADER),
  };
  return { id, type, version, topic, key, contentType, ...place };
}

/** As JSON without what says that the payload is encrypted; `null`: none are left. */
export function plainOptions({ [ENCRYPTION_OPTION]: _, ...rest }: MessageOptions): string | null {
  return Object.keys(rest).length === 0 ? null : JSON.stringify(rest);
}

/** Whether this message must not be in clear: a function has to say `false` for one that may. */
export function isRequired({ required }: PayloadEncryption, context: () => EncryptionContext): boolean {
  return typeof required === 'function' ? required(context()) !== false : required === true;
}

/** @param without a member that says nothing of where the message goes */
function canonical(json: string | null, without: string): string {
  if (json === null) return '{}';
  const stored: unknown = JSON.parse(json);
  return written(stored, without);
}

/** @param without a member that is left out, on this level only */
function written(value: unknown, without?: string): string {
  if (Array.isArray(value)) return `[${value.map((one) => written(one)).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.entries(value).filter(([name]) => name !== without);
  return `{${members
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, member]) => `${JSON.stringify(name)}:${written(member)}`)
    .join(',')}}`;
}
