import { types } from 'node:util';
import { encodeHeaders } from '../message/headers.js';
import type { Serializer } from '../message/serializer.js';
import type { HeaderValue, MessageHeaders } from '../outbox-message.js';
import type { HeadersInput } from './events/event-metadata.js';
import type { EncodedPayload } from './payload.js';
import { isPlainObject } from './plain-object.js';
import { refuse } from '../options/refuse.js';
import { encodingProblem, typeName } from '../options/text-checks.js';

/** AMQP's short string, the narrowest of the brokers. */
const MAX_NAME_BYTES = 255;
/** All names and values of a message together; a transport may allow less. */
export const MAX_HEADER_BYTES = 64 * 1024;
/** Every one costs a broker some bytes, also when it is empty. */
export const MAX_HEADER_VALUES = 1000;

export interface EncodedHeaders {
  readonly json: string | null;
  /** Bytes of names and values, for the limits of transports. */
  readonly bytes: number;
  readonly map: MessageHeaders;
}
const NONE: MessageHeaders = Object.freeze(Object.create(null) as MessageHeaders);
export const NO_HEADERS: EncodedHeaders = Object.freeze({ json: null, bytes: 0, map: NONE });

/** Later sources overrule earlier ones by exact name. The result has no prototype, so `__proto__` is a name like any other. */
export function collectHeaders(sources: readonly (HeadersInput | undefined)[], subject: string): EncodedHeaders {
  let merged: Record<string, HeaderValue> | undefined;
  for (const source of sources) {
    if (source === undefined) continue;
    if (!isPlainObject(source))
      refuse(subject, `headers must be a plain object of names and values, not ${typeName(source)}`);
    for (const name of Object.keys(source)) {
      merged ??= Object.create(null) as Record<string, HeaderValue>;
      merged[name] = source[name] as HeaderValue;
    }
  }
  return merged === undefined ? NO_HEADERS : encode(merged, subject);
}

/** What a serializer says of its bytes nobody else says; of bytes that the caller gave, the caller may. */
export function refuseOwned(given: object, { asGiven }: EncodedPayload, { headers = [] }: Serializer, subject: string) {
  const name = asGiven ? undefined : headers.find((one) => Object.hasOwn(given, one));
  if (name === undefined) return;
  refuse(subject, `the header ${name} is set by the serializer alone`, undefined, 'Leave it out, or give bytes.');
}

function encode(headers: MessageHeaders, subject: string): EncodedHeaders {
  let bytes = 0;
  let values = 0;
  for (const name of Object.keys(headers)) {
    const problem = nameProblem(name) ?? valueProblem(`headers.${name}`, headers[name]);
    if (problem !== undefined) refuse(subject, problem);
    bytes += Buffer.byteLength(name) + valueBytes(headers[name] as HeaderValue);
    values += Array.isArray(headers[name]) ? headers[name].length : 1;
    // Inside the loop: stops before the rest of a hostile map is looked at.
    if (bytes > MAX_HEADER_BYTES) refuse(subject, `headers have more than ${MAX_HEADER_BYTES} bytes`);
    if (values > MAX_HEADER_VALUES) refuse(subject, `headers have more than ${MAX_HEADER_VALUES} values`);
  }
  return { json: encodeHeaders(headers), bytes, map: headers };
}

function nameProblem(name: string): string | undefined {
  if (name === '') return 'a header name is empty';
  if (Buffer.byteLength(name) > MAX_NAME_BYTES) return `a header name has more than ${MAX_NAME_BYTES} bytes`;
  // eslint-disable-next-line eslint/no-control-regex
  if (/[\u0000-\u001f\u007f]/.test(name)) return 'a header name contains a control character';
  return encodingProblem('a header name', name);
}

function valueProblem(path: string, value: unknown): string | undefined {
  if (!Array.isArray(value)) return singleProblem(path, value);
  if (value.length === 0) return `${path} is an empty array`;
  for (let i = 0; i < value.length; i++) {
    const problem = singleProblem(`${path}[${i}]`, value[i]);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function singleProblem(path: string, value: unknown): string | undefined {
  if (typeof value === 'string') return encodingProblem(path, value);
  return types.isUint8Array(value)
    ? undefined
    : `${path} must be a string, a Uint8Array or an array of those, not ${typeName(value)}`;
}

function valueBytes(value: HeaderValue): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (!Array.isArray(value)) return (value as Uint8Array).byteLength;
  return (value as readonly (string | Uint8Array)[]).reduce((sum, one) => sum + Buffer.byteLength(one), 0);
}
