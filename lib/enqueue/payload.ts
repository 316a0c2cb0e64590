import { types } from 'node:util';
import { isThenable } from '../message/is-thenable.js';
import { OutboxError, OutboxMessageError } from '../outbox.errors.js';
import { JSON_TYPE, TEXT_TYPE, type Serializer } from '../message/serializer.js';
import { jsonSerializer } from '../message/json-serializer.js';
import { threw } from '../options/refuse.js';
import { isWellFormed, typeName } from '../options/text-checks.js';

export interface EncodedPayload {
  /** `null`: a tombstone. */
  readonly bytes: Buffer | null;
  readonly contentType: string;
}

/**
 * Once, at enqueue: what is stored is what is published.
 * - bytes pass untouched, `application/octet-stream` unless said otherwise; not copied, which would double a large payload;
 * - `null` is a tombstone;
 * - a string with a content type is that content's text as it is (JSON must parse); without one it is a value to serialize;
 * - all else goes through the serializer.
 *
 * @param contentType what the caller or the event class says
 * @param subject `Event 'order.placed'`, for errors
 */
export function encodePayload(
  payload: unknown,
  contentType: string | undefined,
  serializer: Serializer,
  subject: string,
): EncodedPayload {
  if (payload === null) return { bytes: null, contentType: contentType ?? serializer.contentType };
  if (types.isUint8Array(payload))
    return { bytes: view(payload), contentType: contentType ?? 'application/octet-stream' };
  if (isThenable(payload)) throw refused(subject, 'payload is a Promise; await it');
  if (payload === undefined) throw refused(subject, 'payload is undefined; null is a tombstone');
  if (contentType !== undefined) {
    if (typeof payload === 'string') return { bytes: encodeText(payload, contentType, subject), contentType };
    if (TEXT_TYPE.test(contentType))
      throw refused(subject, `payload of content type ${contentType} must be a string or bytes`);
  }
  return { bytes: serialize(payload, serializer, subject), contentType: contentType ?? serializer.contentType };
}

function serialize(payload: unknown, serializer: Serializer, subject: string): Buffer {
  let bytes: unknown;
  try {
    bytes = serializer.serialize(payload);
  } catch (error) {
    if (error instanceof OutboxError) throw refused(subject, error.message.replace(/\.$/, ''));
    const text = `${subject}: payload: the serializer, or a toJSON or getter of the payload, threw.`;
    throw threw('PAYLOAD_NOT_SERIALIZABLE', text, error, payload);
  }
  if (!types.isUint8Array(bytes))
    throw refused(subject, `payload: the serializer returned ${typeName(bytes)}, not a Uint8Array`);
  // One that is not ours may use its buffer again for the next payload, before this one is sent.
  return serializer === jsonSerializer ? view(bytes) : Buffer.from(bytes);
}

function encodeText(text: string, contentType: string, subject: string): Buffer {
  if (!isWellFormed(text)) throw refused(subject, 'payload contains a lone surrogate, which UTF-8 cannot hold');
  if (JSON_TYPE.test(contentType)) {
    try {
      JSON.parse(text);
    } catch {
      // Without the cause: its message quotes the payload.
      throw refused(subject, `payload is a string that is no valid JSON, but its content type is ${contentType}`);
    }
  }
  return Buffer.from(text, 'utf8');
}

/** The same memory as a Buffer, which every driver takes. */
export function view(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function refused(subject: string, problem: string): OutboxMessageError {
  return new OutboxMessageError('PAYLOAD_NOT_SERIALIZABLE', `${subject}: ${problem}.`);
}
