import { OutboxMessageError } from '../outbox.errors.js';
import type { Serializer } from '../publish/serializer.js';
import { findJsonLoss, pathText } from './lossless.js';

/** The default: JSON as UTF-8, refusing every value that JSON would change or drop in silence. */
export const jsonSerializer: Serializer = Object.freeze({
  contentType: 'application/json',
  serialize(payload: unknown): Uint8Array {
    const lost = findJsonLoss(payload);
    if (lost !== undefined) throw notSerializable(pathText('payload', lost.path), lost.problem);
    const text = JSON.stringify(payload);
    if (text === '{}' && hasAccessors(payload as object)) {
      throw notSerializable(
        'payload',
        'has only getters, which JSON does not see; add toJSON() or the option `payload`',
      );
    }
    return Buffer.from(text, 'utf8');
  },
  deserialize(bytes: Uint8Array): unknown {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'));
  },
});

/** Getters of the classes between an object and Object.prototype: an empty result then is a loss, not an empty event. */
function hasAccessors(value: object): boolean {
  let prototype: object | null = Object.getPrototypeOf(value) as object | null;
  while (prototype !== null && Object.getPrototypeOf(prototype) !== null) {
    for (const descriptor of Object.values(Object.getOwnPropertyDescriptors(prototype))) {
      if (descriptor.get !== undefined) return true;
    }
    prototype = Object.getPrototypeOf(prototype) as object | null;
  }
  return false;
}

function notSerializable(path: string, problem: string): OutboxMessageError {
  return new OutboxMessageError('PAYLOAD_NOT_SERIALIZABLE', `${path} ${problem}.`);
}
