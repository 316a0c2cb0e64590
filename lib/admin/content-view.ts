import { ENCRYPTION_OPTION, isEncrypted, type MessageOptions } from '../outbox-message.js';
import { plainOptions } from '../message/encryption.js';
import { decodeHeaders, type MessageHeaders } from '../message/headers.js';
import { printable } from '../observe/redact/printable.js';
import { beginning, isGzip } from '../payloads/gzip.js';
import type { RowContent } from '../store/inspect-store.js';

/** What may be seen of what the caller wrote into a message. */
export interface ContentView {
  /** Names, each with `***`: as in the log, no value is shown. */
  readonly headers: Readonly<Record<string, '***'>>;
  /** What transports do with it, such as its expiration, as JSON text without what encryption wrote; `null`: none. */
  readonly options: string | null;
  /** `null`: a tombstone. */
  readonly payloadBytes: number | null;
  /** `gzip`: the payload is compressed. */
  readonly contentEncoding: 'gzip' | null;
  /** The key with which the payload is encrypted; `null`: it is in clear. */
  readonly encryptionKeyId: string | null;
  /** Only where it was asked for. */
  readonly payload?: PayloadPreview;
}
/** The first 1,024 bytes at most, decompressed. Of an encrypted payload nothing. */
export interface PayloadPreview {
  /** `null`: it is no text. */
  readonly text: string | null;
  readonly base64: string;
  readonly cut: boolean;
}
export const PREVIEW_BYTES = 1_024;
/** Bytes of a preview that is all of the payload: more than any row has. */
export const WHOLE = 2 ** 30;

/** Without values of headers; of an encrypted payload nothing. */
export function contentView(
  content: Omit<RowContent, 'errors' | 'payloadHash' | 'fits'>,
  withPayload: boolean,
): ContentView {
  const encryptionKeyId = keyIdOf(content.options);
  const headers = headersOf(content.headers);
  const contentEncoding = isGzip(headers) ? 'gzip' : null;
  const shown = withPayload && encryptionKeyId === null ? previewOf(content, contentEncoding) : undefined;
  return {
    headers: masked(headers),
    options: shownOptions(content.options),
    payloadBytes: content.payloadBytes,
    contentEncoding,
    encryptionKeyId,
    ...(shown === undefined ? {} : { payload: shown }),
  };
}

function headersOf(json: string | null): MessageHeaders {
  return json === null ? {} : (parsed(json, decodeHeaders) ?? { '(unreadable)': '' });
}

function masked(headers: MessageHeaders): Record<string, '***'> {
  const names = Object.create(null) as Record<string, '***'>;
  for (const name of Object.keys(headers)) names[printable(name)] = '***';
  return names;
}

function shownOptions(json: string | null): string | null {
  const options = json === null ? null : plainOptions(Object(parsed(json, JSON.parse)) as MessageOptions);
  return options === null ? null : printable(options);
}

/** @returns `''` where the key has no name */
function keyIdOf(optionsJson: string | null): string | null {
  if (!isEncrypted({ optionsJson })) return null;
  const options = parsed(optionsJson as string, JSON.parse) as Record<string, unknown>;
  const { keyId } = Object(options[ENCRYPTION_OPTION]) as { keyId?: unknown };
  return typeof keyId === 'string' ? keyId : '';
}

function previewOf(
  { preview, payloadBytes }: Pick<RowContent, 'preview' | 'payloadBytes'>,
  contentEncoding: ContentView['contentEncoding'],
): PayloadPreview | undefined {
  if (preview === null || payloadBytes === null) return undefined;
  // What is labelled so and is none is shown as it is.
  const plain = (contentEncoding === null ? undefined : parsed(preview, beginning)) ?? preview;
  const cut = payloadBytes > preview.length || plain.length > PREVIEW_BYTES;
  const shown = plain.subarray(0, PREVIEW_BYTES);
  return { text: parsed(shown, (bytes) => textOf(bytes, cut)) ?? null, base64: shown.toString('base64'), cut };
}

/** Of a text that was cut the last sign may be half there. */
const textOf = (bytes: Buffer, cut: boolean): string =>
  new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: cut });

/** Rows of other programs may hold anything. */
export function parsed<In, Out>(value: In, read: (value: In) => Out): Out | undefined {
  try {
    return read(value);
  } catch {
    return undefined;
  }
}
