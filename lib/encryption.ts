/** What of a message stays readable beside its encrypted payload, the same at both ends: authenticate it with the payload. */
export interface EncryptionContext {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly topic: string;
  readonly key: string | null;
  /** Of the payload in clear. */
  readonly contentType: string;
}
export interface EncryptedPayload {
  /** Stored with the message in clear, so that keys can change: 1 to 255 visible ASCII characters. */
  readonly keyId: string;
  readonly ciphertext: Uint8Array;
}

/** Payloads that nobody can read in the tables. Headers, key, topic, type and options stay in clear. */
export interface PayloadEncryption {
  /**
   * Called once per message with a payload, inside the caller's transaction, which waits for it: encrypt with a key that is
   * at hand. `null` leaves the payload in clear. What it throws is the `cause` of an `ENCRYPTION_FAILED`; nothing is written then.
   */
  encrypt(
    plaintext: Uint8Array,
    context: EncryptionContext,
  ): EncryptedPayload | null | Promise<EncryptedPayload | null>;
  /**
   * Called before each publish, and counted into `publishTimeout`. What it throws is the `cause` of a `DECRYPTION_FAILED`, a
   * failure of the message: tried again, then a dead letter, which `requeue` brings back when the key is there.
   */
  decrypt(encrypted: EncryptedPayload, context: EncryptionContext): Uint8Array | Promise<Uint8Array>;
  /**
   * `encrypted`: brokers get the ciphertext, and the key's id in the header `encryption-key-id`; `decrypt` is called for
   * `@OnOutboxEvent` handlers only. Default `plain`. A message that is encrypted cannot have a header of this name.
   */
  deliver?: 'plain' | 'encrypted';
}

/** Header of a message that is delivered as it is stored. */
export const KEY_ID_HEADER = 'encryption-key-id';

export function encryptionContext(message: EncryptionContext): EncryptionContext {
  const { id, type, version, topic, key, contentType } = message;
  return { id, type, version, topic, key, contentType };
}
