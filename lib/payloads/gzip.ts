import { constants, gunzipSync } from 'node:zlib';
import type { MessageHeaders } from '../message/headers.js';
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

/** What the first bytes of gzip hold, as far as they go. @throws when they are none */
export function beginning(bytes: Uint8Array): Buffer {
  return gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: MAX_BYTES });
}

/** @returns the payload and the headers of one that is not compressed */
export function plainOf<Bytes extends Uint8Array>(
  bytes: Bytes,
  headers: MessageHeaders,
  maxBytes: number,
): { readonly bytes: Bytes | Buffer; readonly headers: MessageHeaders } {
  if (!isGzip(headers)) return { bytes, headers };
  const { [CONTENT_ENCODING]: _, ...rest } = headers;
  return { bytes: gunzip(bytes, maxBytes), headers: rest };
}
