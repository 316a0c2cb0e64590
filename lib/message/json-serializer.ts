import { OutboxMessageError } from '../outbox.errors.js';
import type { Serializer } from './serializer.js';
import { findJsonLoss, pathText } from './lossless.js';

/** The default: JSON as UTF-8, refusing every value that JSON would change or drop in silence. */
export const jsonSerializer: Serializer = Object.freeze({
  contentType: 'application/json',
  serialize(payload: unknown): Uint8Array {
    const lost = findJsonLoss(payload);
    if (lost !== undefined)
      throw new OutboxMessageError('PAYLOAD_NOT_SERIALIZABLE', `${pathText('payload', lost.path)} ${lost.problem}.`);
    return Buffer.from(JSON.stringify(payload), 'utf8');
  },
  deserialize(bytes: Uint8Array): unknown {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'));
  },
});
