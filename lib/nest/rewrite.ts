import { types } from 'node:util';
import type { MessageChanges } from '../admin/edit/edit-changes.js';
import { Destinations, limitProblem, type Destination } from '../enqueue/destinations.js';
import { encryptPayloads } from '../enqueue/encrypt-payloads.js';
import { collectHeaders, NO_HEADERS, type EncodedHeaders } from '../enqueue/headers.js';
import { encodePayload, view } from '../enqueue/payload.js';
import { refuseTooLarge } from '../enqueue/to-message.js';
import { encryptionContext, type PayloadEncryption } from '../message/encryption.js';
import { decodeHeaders } from '../message/headers.js';
import { JSON_TYPE } from '../message/serializer.js';
import { refuse } from '../options/refuse.js';
import type { ResolvedOptions } from '../outbox.options.js';
import { ENCRYPTION_OPTION, isEncrypted, type HeaderValue, type MessageOptions } from '../outbox-message.js';
import { OutboxMessageError } from '../outbox.errors.js';
import type { EditableContent, EditableRow } from '../store/edit.js';
import { systemClock, within } from '../time/clock.js';

interface RewriteSources {
  readonly options: Pick<
    ResolvedOptions,
    'transports' | 'defaultTransport' | 'serializer' | 'maxPayloadBytes' | 'encryption' | 'publishTimeout'
  >;
  readonly transportIds: ReadonlyMap<string, number>;
}

const SUBJECT = 'edit';
const NO_BYTES = Buffer.alloc(0);
const SEALED =
  'its payload is encrypted together with topic, type and headers, and this process has no encryption for its transport';
const WHERE_KEYS_ARE = "Edit it with the application's own options: on the command line with --module.";

/**
 * What a stored message is after an operator's changes: checked as at an enqueue, by the limits that this process knows, and
 * encrypted again where it was.
 * @param transport its name
 */
export async function rewrite(
  sources: RewriteSources,
  row: EditableRow,
  transport: string,
  changes: MessageChanges,
): Promise<EditableContent> {
  const { options } = sources;
  const isSealed = isEncrypted({ optionsJson: row.options });
  const destinations = new Destinations(options, sources.transportIds);
  const destination = destinations.byName.get(transport);
  const encryption = destination === undefined ? undefined : options.encryption;
  if (isSealed && encryption === undefined) refuse(SUBJECT, SEALED, 'INVALID_MESSAGE', WHERE_KEYS_ARE);
  const headers = headersOf(row, changes);
  const payload = payloadOf(row, changes, options);
  const inClear: EditableContent = {
    topic: changes.topic ?? row.topic,
    type: changes.type ?? row.type,
    contentType: payload.contentType,
    headers: headers === undefined ? row.headers : headers.json,
    options: row.options,
    payload: payload.bytes,
  };
  const isNew = changes.payload !== undefined;
  // What stays was measured at the enqueue, before it was encrypted.
  const measured = isNew || row.payload === null ? payload : { ...payload, bytes: NO_BYTES };
  refuseUnfit(measured, headers ?? storedHeaders(row), inClear, { row, destination });
  if (encryption === undefined || !(isNew || isSealed)) return inClear;
  const work = reseal({ encryption, destinations, transport }, row, { ...inClear, isSealed, isNew });
  return inTime(options.publishTimeout, work);
}

interface Seal {
  readonly encryption: PayloadEncryption;
  readonly destinations: Destinations;
  readonly transport: string;
}

/** Bound to where it goes: a change of topic, type, content type or headers takes another ciphertext, too. */
async function reseal(
  { encryption, destinations, transport: name }: Seal,
  row: EditableRow,
  { isSealed, isNew, ...content }: EditableContent & { readonly isSealed: boolean; readonly isNew: boolean },
): Promise<EditableContent> {
  const payload = isNew ? content.payload : await opened(encryption, row, name);
  const { id, key, version, transport } = row;
  const plain = {
    ...{ ...content, id, key, version, transport, payload, options: withoutKeyId(row.options) },
    ...{ bucket: 0, delay: null, deliverAt: null, dedupKey: null },
  };
  const [sealed] = await encryptPayloads([plain], encryption, destinations);
  const stored = { ...content, options: sealed?.options ?? null, payload: bufferOf(sealed?.payload ?? null) };
  if (isSealed && payload !== null && !isEncrypted({ optionsJson: stored.options }))
    refuse(SUBJECT, 'its payload was encrypted, and encryption.encrypt() leaves it in clear now', 'ENCRYPTION_FAILED');
  return stored;
}

async function opened(encryption: PayloadEncryption, row: EditableRow, transport: string): Promise<Buffer | null> {
  if (row.payload === null) return null;
  const { keyId } = Object(optionsOf(row)[ENCRYPTION_OPTION]) as { keyId?: unknown };
  try {
    const context = encryptionContext({ ...row, transport });
    return bufferOf(await encryption.decrypt({ keyId: String(keyId), ciphertext: row.payload }, context));
  } catch (error) {
    const text = `${SUBJECT}: its payload, which is bound to topic, type and headers, was not decrypted.`;
    throw new OutboxMessageError('DECRYPTION_FAILED', text, { cause: error });
  }
}

function payloadOf(
  row: EditableRow,
  { payload, contentType }: MessageChanges,
  { serializer, maxPayloadBytes }: RewriteSources['options'],
): { readonly bytes: Buffer | null; readonly contentType: string } {
  if (payload === undefined) return { bytes: row.payload, contentType: contentType ?? row.contentType };
  const isSerialized = payload !== null && typeof payload !== 'string' && !types.isUint8Array(payload);
  const fits = row.contentType === serializer.contentType || JSON_TYPE.test(row.contentType);
  if (isSerialized && contentType === undefined && !fits)
    refuse(
      SUBJECT,
      `the payload is a value for ${serializer.contentType}, and the message's content type is another one`,
      'INVALID_MESSAGE',
      'Give bytes, or contentType.',
    );
  const encoded = encodePayload(payload, contentType ?? row.contentType, serializer, SUBJECT);
  refuseTooLarge(encoded.bytes, maxPayloadBytes, SUBJECT);
  return encoded;
}

/** @returns `undefined`: they stay as they are */
function headersOf(row: EditableRow, { headers }: MessageChanges): EncodedHeaders | undefined {
  if (headers === undefined) return undefined;
  const kept: Record<string, HeaderValue> = Object.assign(Object.create(null), storedHeaders(row).map);
  const set: Record<string, HeaderValue> = Object.create(null) as Record<string, HeaderValue>;
  for (const name of Object.keys(headers)) {
    const value = headers[name] as HeaderValue | null;
    if (value !== null) set[name] = value;
    else if (!Object.hasOwn(kept, name)) refuse(SUBJECT, 'a header is to be removed that the message does not have');
    else delete kept[name];
  }
  return collectHeaders([kept, set], SUBJECT);
}

/** Another program may have written what is no JSON: that is none. */
function storedHeaders({ headers }: Pick<EditableRow, 'headers'>): EncodedHeaders {
  try {
    return headers === null ? NO_HEADERS : { json: headers, bytes: 0, map: decodeHeaders(headers) };
  } catch {
    return NO_HEADERS;
  }
}

/** By what the transport of this process cannot carry. */
function refuseUnfit(
  payload: { readonly bytes: Buffer | null; readonly contentType: string },
  headers: EncodedHeaders,
  { topic, type }: Pick<EditableContent, 'topic' | 'type'>,
  { row, destination }: { readonly row: EditableRow; readonly destination: Destination | undefined },
): void {
  if (destination === undefined) return;
  const { [ENCRYPTION_OPTION]: _, ...map } = optionsOf(row);
  const exceeded = limitProblem(
    { topic, key: row.key, type },
    payload,
    headers,
    { json: row.options, map },
    destination,
  );
  if (exceeded !== undefined) refuse(SUBJECT, exceeded.problem, exceeded.code);
}

function optionsOf({ options }: Pick<EditableRow, 'options'>): MessageOptions {
  try {
    return options === null ? {} : (JSON.parse(options) as MessageOptions);
  } catch {
    return {};
  }
}

function withoutKeyId(options: string | null): string | null {
  if (options === null) return null;
  const { [ENCRYPTION_OPTION]: _, ...rest } = optionsOf({ options });
  return Object.keys(rest).length === 0 ? null : JSON.stringify(rest);
}

const bufferOf = (bytes: Uint8Array | null): Buffer | null => bytes && view(bytes);

async function inTime<T>(ms: number, work: Promise<T>): Promise<T> {
  if (await within(systemClock, ms, work)) return work;
  work.catch(() => undefined);
  throw new OutboxMessageError('ENCRYPTION_FAILED', `${SUBJECT}: its encryption did not answer within publishTimeout.`);
}
