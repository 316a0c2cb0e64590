import { ENCRYPTION_OPTION, isEncrypted } from '../outbox-message.js';
import { decodeHeaders } from '../message/headers.js';
import { printable } from '../observe/redact/printable.js';
import type { RowContent, StoredRow } from '../store/inspect-store.js';
import { toFound, type FoundMessage } from './found-message.js';

/** One message in all its transports. */
export interface MessageDetails {
  readonly id: string;
  /** Empty: nothing of it is there. */
  readonly transports: readonly TransportDetails[];
  /** `false`: the time was over before all tables were looked through. What is missing may be there. */
  readonly complete: boolean;
}
export interface TransportDetails extends FoundMessage {
  /** Names, each with `***`: as in the log, no value is shown. */
  readonly headers: Readonly<Record<string, '***'>>;
  /** The last failures, oldest first, where `retry.errorHistory` keeps them. */
  readonly errors: readonly KeptFailure[];
  /** `null`: a tombstone. */
  readonly payloadBytes: number | null;
  /** The key with which the payload is encrypted; `null`: it is in clear. */
  readonly encryptionKeyId: string | null;
  /** Only where it was asked for. */
  readonly payload?: PayloadPreview;
}
export interface KeptFailure {
  readonly attempt: number;
  readonly at: Date | null;
  readonly error: string;
}
/** The first 1,024 bytes at most. Of an encrypted payload nothing. */
export interface PayloadPreview {
  /** `null`: it is no text. */
  readonly text: string | null;
  readonly base64: string;
  readonly cut: boolean;
}
export const PREVIEW_BYTES = 1_024;

export function toDetails(
  row: StoredRow,
  content: RowContent,
  names: ReadonlyMap<number, string>,
  withPayload: boolean,
): TransportDetails {
  const encryptionKeyId = keyIdOf(content.options);
  const shown = withPayload && encryptionKeyId === null ? previewOf(content) : undefined;
  return {
    ...toFound(row, names),
    headers: maskedHeaders(content.headers),
    errors: keptFailures(content.errors),
    payloadBytes: content.payloadBytes,
    encryptionKeyId,
    ...(shown === undefined ? {} : { payload: shown }),
  };
}

function maskedHeaders(json: string | null): Record<string, '***'> {
  const masked = Object.create(null) as Record<string, '***'>;
  const headers = json === null ? {} : (parsed(json, decodeHeaders) ?? {});
  for (const name of Object.keys(headers)) masked[printable(name)] = '***';
  return masked;
}

function keptFailures(json: string | null): KeptFailure[] {
  const kept: unknown = json === null ? [] : parsed(json, JSON.parse);
  if (!Array.isArray(kept)) return [];
  return kept.map((each) => {
    const { attempt, at, error } = Object(each) as Record<string, unknown>;
    const time = new Date(typeof at === 'string' ? at : NaN);
    return {
      attempt: Number(attempt),
      at: Number.isNaN(time.getTime()) ? null : time,
      error: printable(typeof error === 'string' ? error : ''),
    };
  });
}

/** @returns `''` where the key has no name */
function keyIdOf(optionsJson: string | null): string | null {
  if (!isEncrypted({ optionsJson })) return null;
  const options = parsed(optionsJson as string, JSON.parse) as Record<string, unknown>;
  const { keyId } = Object(options[ENCRYPTION_OPTION]) as { keyId?: unknown };
  return typeof keyId === 'string' ? keyId : '';
}

function previewOf({ preview, payloadBytes }: RowContent): PayloadPreview | undefined {
  if (preview === null || payloadBytes === null) return undefined;
  const cut = payloadBytes > preview.length;
  return { text: parsed(preview, (bytes) => textOf(bytes, cut)) ?? null, base64: preview.toString('base64'), cut };
}

/** Of a text that was cut the last sign may be half there. */
const textOf = (bytes: Buffer, cut: boolean): string =>
  new TextDecoder('utf-8', { fatal: true }).decode(bytes, { stream: cut });

/** Rows of other programs may hold anything. */
function parsed<In, Out>(value: In, read: (value: In) => Out): Out | undefined {
  try {
    return read(value);
  } catch {
    return undefined;
  }
}
