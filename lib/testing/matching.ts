import assert from 'node:assert/strict';
import { inspect, isDeepStrictEqual, types } from 'node:util';
import { eventMetadata, type EventClass } from '../enqueue/events/event-metadata.js';
import { isRecord } from '../payloads/event-from.js';
import type { MessageHeaders } from '../outbox-message.js';

/** A message as tests see it. */
export interface RecordedMessage {
  readonly id: string;
  readonly type: string;
  readonly version: number;
  readonly transport: string;
  readonly topic: string;
  readonly key: string | null;
  readonly headers: MessageHeaders;
  readonly contentType: string;
  /** Decompressed and parsed when it is labelled JSON and is; bytes otherwise, as of what is delivered encrypted; `null` is a tombstone. */
  readonly payload: unknown;
}

/** Which messages are meant: those of a class, or of a type. */
export type Wanted = EventClass | string;

/**
 * Objects match when every field of `expected` does; everything else must be deeply equal.
 * @param json `actual` was JSON: dates and instances are expected as JSON makes them
 */
export function matches(actual: unknown, expected: unknown, json: boolean): boolean {
  const wanted = json && !isRecord(expected) ? asJson(expected) : expected;
  if (!isRecord(wanted)) return isDeepStrictEqual(actual, wanted);
  if (typeof actual !== 'object' || actual === null) return false;
  return Object.entries(wanted).every(([key, value]) => matches((actual as Record<string, unknown>)[key], value, json));
}

/** The first message of this kind whose payload matches; an AssertionError that shows what there is otherwise. */
export function expectOne(
  what: string,
  all: readonly RecordedMessage[],
  wanted: Wanted,
  payload: unknown,
  note = '',
): RecordedMessage {
  const { type, version } = typeOf(wanted);
  const candidates = all.filter((one) => one.type === type && (version === undefined || one.version === version));
  const fits = (seen: unknown): boolean => matches(seen, plain(payload), !types.isUint8Array(seen));
  const found = payload === undefined ? candidates[0] : candidates.find((one) => fits(one.payload));
  if (found !== undefined) return found;
  const there =
    candidates.length > 0 ? candidates.map(({ payload: seen }) => seen) : [...new Set(all.map((one) => one.type))];
  const shown = inspect(there, { depth: 4, breakLength: 100 });
  throw new assert.AssertionError({
    message:
      candidates.length > 0
        ? `No '${type}' was ${what} with ${inspect(payload)}; there are: ${shown}${note}`
        : `No '${type}' was ${what}; there are: ${shown}${note}`,
    actual: there,
    expected: payload ?? type,
    operator: 'partialDeepEqual',
  });
}

function typeOf(wanted: Wanted): { type: string; version: number | undefined } {
  if (typeof wanted === 'string') return { type: wanted, version: undefined };
  const metadata = eventMetadata(wanted);
  assert.ok(metadata, `${wanted.name} has no @OutboxEvent.`);
  return metadata;
}

/** Events as expectations: their fields count, not their class, unless they write themselves. */
function plain(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return typeof (value as { toJSON?: unknown }).toJSON === 'function' ? value : { ...value };
}

/** What JSON refuses, such as a bigint, stays as it is, and equals nothing that was JSON. */
function asJson(value: unknown): unknown {
  try {
    const text = JSON.stringify(value) as string | undefined;
    return text === undefined ? undefined : (JSON.parse(text) as unknown);
  } catch {
    return value;
  }
}
