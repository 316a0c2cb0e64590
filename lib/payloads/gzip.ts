import { constants, gunzipSync } from 'node:zlib';
import { encodeHeaders } from '../message/headers.js';
import { OutboxMessage } from '../outbox-message.js';
import { OutboxMessageError } from '../outbox.errors.js';

/** The header that says so of a payload. */
export const CONTENT_ENCODING = 'content-encoding';
/** Bytes that a payload is decompressed to, where nobody said how many. */
export const MAX_BYTES = 16 * 2 ** 20;
/** The largest `maxPayloadBytes`: for what an outbox itself has stored. */
export const MOST_BYTES = 2 ** 27;

/** Headers as an outbox stores them, or as a broker's client gives them. */
export function isGzip(headers: Readonly<Record<string, unknown>>): boolean {
  const value = headers[CONTENT_ENCODING];
  return (typeof value === 'string' || Buffer.isBuffer(value)) && value.toString().toLowerCase() === 'gzip';
}

/** The same of headers that came through a broker: Debezium has all of a message in one, as JSON that a server of Nest parses. */
export function arrivedAsGzip(headers: Readonly<Record<string, unknown>>): boolean {
  const { headers: all } = headers;
  if (isGzip(headers) || typeof all === 'object') return isGzip({ ...(all as object | null), ...headers });
  try {
    return String(all).includes(CONTENT_ENCODING) && isGzip(Object(JSON.parse(String(all))) as typeof headers);
  } catch {
    return false;
  }
}

/**
 * @param whose for the error: `The payload of message …`
 * @throws OutboxMessageError `INVALID_MESSAGE`: it is none, it is cut, or it has more than `maxBytes`
 */
export function gunzip(bytes: Uint8Array, maxBytes: number, whose = 'The payload'): Buffer {
  try {
    return gunzipSync(bytes, { maxOutputLength: maxBytes });
  } catch (error) {
    const isLarge = (error as { code?: unknown }).code === 'ERR_BUFFER_TOO_LARGE';
    const problem = isLarge
      ? `has more than ${maxBytes} bytes when it is decompressed`
      : 'is labelled gzip, and is none or is cut';
    // Without the cause, which says no more.
    throw new OutboxMessageError('INVALID_MESSAGE', `${whose} ${problem}.`);
  }
}

/** What a broker's client gives: bytes as far as they can be decompressed, else as they are; nothing where they are bytes no more. */
export function gunzipped(value: unknown, maxBytes: number): unknown {
  if (!Buffer.isBuffer(value)) return undefined;
  try {
    return gunzip(value, maxBytes);
  } catch {
    return value;
  }
}

/** What the first bytes of gzip hold, as far as they go. @throws when they are none */
export function beginning(bytes: Uint8Array): Buffer {
  return gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: MAX_BYTES });
}

/** As the message was before it was compressed, for a client that encodes it anew. Ciphertext stays. */
export function decompressed(message: OutboxMessage): OutboxMessage {
  if (message.headersJson?.includes(CONTENT_ENCODING) !== true || message.encryptionKeyId !== null) return message;
  const { payload, headers } = message;
  if (payload === null || !isGzip(headers)) return message;
  const { [CONTENT_ENCODING]: _, ...rest } = headers;
  return new OutboxMessage({ ...message, body: gunzip(payload, MOST_BYTES), headersJson: encodeHeaders(rest) });
}
