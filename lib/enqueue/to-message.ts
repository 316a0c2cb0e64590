import { types } from 'node:util';
import { milliseconds } from '../time/duration.js';
import type { NewMessage } from '../outbox-message.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { Serializer } from '../message/serializer.js';
import { bucketOf } from '../message/bucket-of.js';
import { limitProblem, type Destination, type Destinations } from './destinations.js';
import { draftOf, type Draft } from './draft.js';
import { refuse } from '../options/refuse.js';
import { encodeOptions } from './encode-options.js';
import { encodePayload, type EncodedPayload } from './payload.js';
import type { MessageSettings } from './options.js';
import type { EventRegistry } from './events/event-registry.js';
import { collectHeaders, refuseOwned, type EncodedHeaders } from './headers.js';
import { MAX_DEDUP_KEY_BYTES, textProblem } from '../options/text-checks.js';
import { parseUuidV7 } from '../message/uuid-v7.js';
import type { EnqueueTrace } from './tracing.js';

export interface MessageRules extends Pick<
  ResolvedOptions,
  'ordering' | 'buckets' | 'maxPayloadBytes' | 'idGenerator'
> {
  readonly serializer: Serializer;
  readonly registry: EventRegistry;
  readonly destinations: Destinations;
}

/**
 * Pure. Turns an event or a plain message into rows, one for each transport, all with one id. Everything that could fail
 * fails here, before any SQL, so that the caller's transaction stays usable; no error contains a payload, a key or a header.
 *
 * @param where `messages[3]: ` in an array, for errors
 * @param trace gives the message headers of its own, under those of the caller
 */
export function toMessage(
  input: unknown,
  settings: MessageSettings,
  rules: MessageRules,
  where = '',
  trace?: EnqueueTrace,
): NewMessage[] {
  const draft = draftOf(input, settings, rules.registry, where);
  const { subject, key } = draft;
  const payload = encodePayload(draft, rules.serializer);
  refuseTooLarge(payload.bytes, rules.maxPayloadBytes, subject);
  draft.check?.(draft.payload); // after it was serialized: what a schema changes in place is not stored
  const own = headersOf(draft, payload, rules.serializer);
  const destinations = destinationsOf(draft, rules.destinations);
  const identity = identityOf(draft, settings, rules.idGenerator);
  const headers = trace === undefined ? own : traced(trace, draft, identity.id, destinations, own);
  const options = encodeOptions(draft);
  for (const destination of destinations) {
    const exceeded = limitProblem(draft, payload, headers, options, destination);
    if (exceeded !== undefined) refuse(subject, exceeded.problem, exceeded.code);
  }
  const bucket = rules.ordering === 'global' ? 0 : bucketOf(key ?? identity.id, rules.buckets);
  const { delay, deliverAt } = timingOf(draft, settings);
  // A literal: spreading a shared object took a third of the whole function.
  return destinations.map(({ id: transport }) => ({
    id: identity.id,
    transport,
    bucket,
    topic: draft.topic,
    key,
    type: draft.type,
    version: draft.version,
    contentType: payload.contentType,
    headers: headers.json,
    options: options.json,
    payload: payload.bytes,
    delay,
    deliverAt,
    dedupKey: identity.dedupKey,
  }));
}

export function refuseTooLarge(payload: Uint8Array | null, allowed: number, subject: string): void {
  if (payload === null || payload.length <= allowed) return;
  const size = `payload has ${payload.length} bytes, more than maxPayloadBytes (${allowed})`;
  refuse(subject, size, 'PAYLOAD_TOO_LARGE');
}

/** The caller's, and the serializer's. */
function headersOf({ headers, subject }: Draft, payload: EncodedPayload, serializer: Serializer): EncodedHeaders {
  const own = collectHeaders(headers, subject);
  refuseOwned(own.map, payload, serializer, subject);
  return payload.headers === undefined ? own : collectHeaders([own.map, payload.headers], subject);
}

/** The headers with those of a trace. */
function traced(
  trace: EnqueueTrace,
  { subject, type, topic }: Draft,
  id: string,
  destinations: readonly Destination[],
  own: EncodedHeaders,
): EncodedHeaders {
  const transports = destinations.map(({ name }) => name);
  const added = trace.created({ id, type, topic, transports, headers: own.map });
  return added === undefined ? own : collectHeaders([added, own.map], subject);
}

function destinationsOf({ transport, subject }: Draft, destinations: Destinations): readonly Destination[] {
  if (transport === undefined) return destinations.byDefault;
  return destinations.named(typeof transport === 'string' ? [transport] : transport, subject);
}

/** Prefixes keep the two kinds apart: a dedup key that looks like an id is still a dedup key. */
export const ID_PREFIX = 'id:';
export const DEDUP_KEY_PREFIX = 'key:';

function identityOf(
  { subject, own }: Draft,
  settings: MessageSettings,
  generate: () => string,
): Pick<NewMessage, 'id' | 'dedupKey'> {
  const given = settings.id ?? own.id;
  const dedupKey = settings.dedupKey ?? own.dedupKey;
  if (given !== undefined && dedupKey !== undefined) refuse(subject, 'id and dedupKey cannot be given together');
  if (given !== undefined) {
    const id = parseUuidV7(given) ?? refuse(subject, 'id is no RFC 9562 version 7 UUID');
    return { id, dedupKey: ID_PREFIX + id };
  }
  const id = parseUuidV7(generate()) ?? refuse(subject, 'idGenerator returned no RFC 9562 version 7 UUID');
  if (dedupKey === undefined) return { id, dedupKey: null };
  const problem = textProblem('dedupKey', dedupKey, MAX_DEDUP_KEY_BYTES);
  if (problem !== undefined) refuse(subject, problem);
  return { id, dedupKey: DEDUP_KEY_PREFIX + dedupKey };
}

const AT_ONCE: Pick<NewMessage, 'delay' | 'deliverAt'> = Object.freeze({ delay: null, deliverAt: null });
/** The last instant that every database can hold. */
const LAST_INSTANT = Date.UTC(9999, 11, 31);
/** A century: far past any use, near enough that adding it to now fits every database. */
const MAX_DELAY = 100 * 366 * 86_400_000;

function timingOf({ subject, own }: Draft, settings: MessageSettings): Pick<NewMessage, 'delay' | 'deliverAt'> {
  const { deliverAt, delay } = settings.deliverAt === undefined && settings.delay === undefined ? own : settings;
  if (deliverAt !== undefined && delay !== undefined) refuse(subject, 'deliverAt and delay cannot be given together');
  if (deliverAt !== undefined) {
    const time = types.isDate(deliverAt) ? deliverAt.getTime() : Number.NaN;
    if (!(time >= 0 && time <= LAST_INSTANT)) refuse(subject, 'deliverAt must be a valid Date from 1970 to 9999');
    // A copy: the caller may change theirs before it is stored.
    return { delay: null, deliverAt: new Date(time) };
  }
  if (delay === undefined) return AT_ONCE;
  const ms = milliseconds(typeof delay === 'number' && delay > 0 && delay < MAX_DELAY ? Math.ceil(delay) : delay);
  if (ms === undefined || ms > MAX_DELAY)
    refuse(subject, `delay must be a duration of at most a century, such as '30s' or 500`);
  return ms === 0 ? AT_ONCE : { delay: ms, deliverAt: null };
}
