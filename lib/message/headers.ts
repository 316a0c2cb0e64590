import { OutboxMessageError } from '../outbox.errors.js';

/** A header as a broker carries it: text, bytes, or several values under one name. */
export type HeaderValue = string | Uint8Array | readonly (string | Uint8Array)[];
export type MessageHeaders = Readonly<Record<string, HeaderValue>>;

/** Headers in the database: a JSON object whose values are strings, `{"b64": …}` for bytes, or arrays of those. */
type Encoded = string | { b64: string } | (string | { b64: string })[];

export function encodeHeaders(headers: MessageHeaders): string | null {
  const names = Object.keys(headers);
  if (names.length === 0) return null;
  const out: Record<string, Encoded> = Object.create(null) as Record<string, Encoded>;
  for (const name of names) {
    const value = headers[name] as HeaderValue;
    out[name] = isMany(value) ? value.map(encodeOne) : encodeOne(value);
  }
  return JSON.stringify(out);
}

/**
 * The result has no prototype, so that no header name can reach one.
 * @throws OutboxMessageError `INVALID_MESSAGE`: another program wrote something else
 */
export function decodeHeaders(json: string): MessageHeaders {
  try {
    return decoded(JSON.parse(json) as Record<string, Encoded>);
  } catch {
    const what = 'a JSON object whose values are texts, { "b64": … } or arrays of those';
    throw new OutboxMessageError('INVALID_MESSAGE', `The headers in the table are not ${what}.`);
  }
}

function decoded(stored: Readonly<Record<string, Encoded>>): MessageHeaders {
  const out: Record<string, HeaderValue> = Object.create(null) as Record<string, HeaderValue>;
  for (const name of Object.keys(stored)) {
    const value = stored[name] as Encoded;
    out[name] = Array.isArray(value) ? value.map(decodeOne) : decodeOne(value);
  }
  return out;
}

function isMany(value: HeaderValue): value is readonly (string | Uint8Array)[] {
  return Array.isArray(value);
}
function encodeOne(value: string | Uint8Array): string | { b64: string } {
  return typeof value === 'string' ? value : { b64: Buffer.from(value).toString('base64') };
}
function decodeOne(value: string | { b64: string }): string | Uint8Array {
  return typeof value === 'string' ? value : Buffer.from(value.b64, 'base64');
}
