import { createCipheriv, createDecipheriv } from 'node:crypto';
import type { EncryptedPayload, EncryptionContext, PayloadEncryption } from '../../../lib/index.js';

/** Authenticates all of the context, as the page on encryption says. */
export class SealingEncryption implements PayloadEncryption {
  readonly required = true;
  readonly key = Buffer.alloc(32, 7);

  encrypt(plaintext: Uint8Array, context: EncryptionContext): EncryptedPayload {
    const cipher = createCipheriv('aes-256-gcm', this.key, Buffer.alloc(12)).setAAD(bound(context));
    return { keyId: 'k', ciphertext: Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]) };
  }

  decrypt({ ciphertext }: EncryptedPayload, context: EncryptionContext): Uint8Array {
    const bytes = Buffer.from(ciphertext);
    const decipher = createDecipheriv('aes-256-gcm', this.key, Buffer.alloc(12), { authTagLength: 16 });
    decipher.setAAD(bound(context)).setAuthTag(bytes.subarray(-16));
    return Buffer.concat([decipher.update(bytes.subarray(0, -16)), decipher.final()]);
  }
}

const bound = (context: EncryptionContext): Buffer =>
  Buffer.from(JSON.stringify(Object.entries(context).sort(([a], [b]) => (a < b ? -1 : 1))));
