import { types } from 'node:util';
import { isThenable } from '../message/is-thenable.js';
import { OutboxError } from '../outbox.errors.js';
import type { MessageHeaders } from '../message/headers.js';
import { isJson, TEXT_TYPE, type SerializedPayload, type Serializer } from '../message/serializer.js';
import { jsonSerializer } from '../message/json-serializer.js';
import { refuse, threw } from '../options/refuse.js';
import { isWellFormed, typeName } from '../options/text-checks.js';
import type { Draft } from './draft.js';

export interface EncodedPayload {
  /** `null`: a tombstone. */
  readonly bytes: Buffer | null;
  readonly contentType: string;
  /** What the serializer gave with the bytes. */
  readonly headers?: MessageHeaders | undefined;
  /** The caller gave bytes, or none, and knows what they are. */
  readonly asGiven?: true;
}

/** As far as it says what its payload is. */
type PayloadDraft = Pick<Draft, 'subject' | 'type' | 'version' | 'contentType' | 'payload'>;

/**
 * Once, at enqueue: what is stored is what is published.
 * - bytes pass untouched, `application/octet-stream` unless said otherwise; not copied, which would double a large payload;
 * - `null` is a tombstone;
 * - a string with a content type is that content's text as it is (JSON must parse); without one it is a value to serialize;
 * - all else goes through the serializer.
 *
 * @param contentType of the draft: what the caller or the event class says
 */
export function encodePayload(draft: PayloadDraft, serializer: Serializer): EncodedPayload {
  const { payload, contentType, subject } = draft;
  if (payload === null) return { bytes: null, contentType: contentType ?? serializer.contentType, asGiven: true };
  if (types.isUint8Array(payload))
    return { bytes: bufferOf(payload), contentType: contentType ?? 'application/octet-stream', asGiven: true };
  if (isThenable(payload)) refused(subject, 'payload is a Promise; await it');
  if (payload === undefined) refused(subject, 'payload is undefined; null is a tombstone');
  if (contentType !== undefined) {
    if (typeof payload === 'string') return { bytes: encodeText(payload, contentType, subject), contentType };
    if (TEXT_TYPE.test(contentType))
      refused(subject, `payload of content type ${contentType} must be a string or bytes`);
  }
  return { ...serialized(draft, serializer), contentType: contentType ?? serializer.contentType };
}

function serialized({ payload, subject, type, version }: PayloadDraft, serializer: Serializer) {
  let given: Uint8Array | SerializedPayload;
  try {
    given = serializer.serialize(payload, { type, version });
  } catch (error) {
    if (error instanceof OutboxError) refuse(subject, error.message.replace(/\.$/, ''), error.code);
    const text = `${subject}: payload: the serializer, or a toJSON or getter of the payload, threw.`;
    throw threw('PAYLOAD_NOT_SERIALIZABLE', text, error, payload);
  }
  const { bytes, headers }: Partial<SerializedPayload> = types.isUint8Array(given) ? { bytes: given } : Object(given);
  if (!types.isUint8Array(bytes))
    refused(subject, `payload: the serializer returned ${typeName(given)}, not a Uint8Array`);
  if (Object.keys(headers ?? {}).some((name) => serializer.headers?.includes(name) !== true))
    refused(subject, 'payload: the serializer gave a header that its property `headers` does not name');
  // One that is not ours may use its buffer again for the next payload, before this one is sent.
  return { bytes: serializer === jsonSerializer ? bufferOf(bytes) : Buffer.from(bytes), headers };
}

function encodeText(text: string, contentType: string, subject: string): Buffer {
  if (!isWellFormed(text)) refused(subject, 'payload contains a lone surrogate, which UTF-8 cannot hold');
  if (isJson(contentType)) {
    try {
      JSON.parse(text);
    } catch {
      // Without the cause: its message quotes the payload.
      refused(subject, `payload is a string that is no valid JSON, but its content type is ${contentType}`);
    }
  }
  return Buffer.from(text, 'utf8');
}

/** The same memory as a Buffer, which every driver takes. */
export function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

function refused(subject: string, problem: string): never {
  refuse(subject, problem, 'PAYLOAD_NOT_SERIALIZABLE');
}
