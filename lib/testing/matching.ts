import assert from 'node:assert/strict';
import { inspect, isDeepStrictEqual } from 'node:util';
import { eventMetadata, type EventClass } from '../enqueue/event-metadata.js';
import type { MessageHeaders } from '../message.js';

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
  /** Parsed when it is labelled JSON and is; bytes otherwise, as of what is delivered encrypted; `null` is a tombstone. */
  readonly payload: unknown;
}

/** Which messages are meant: those of a class, or of a type. */
export type Wanted = EventClass | string;

/** Objects match when every field of `expected` does; everything else must be deeply equal. */
export function matches(actual: unknown, expected: unknown): boolean {
  if (!isPlain(expected)) return isDeepStrictEqual(actual, expected);
  if (typeof actual !== 'object' || actual === null) return false;
  return Object.entries(expected).every(([key, value]) => matches((actual as Record<string, unknown>)[key], value));
}

/** The first message of this kind whose payload matches; an AssertionError that shows what there is otherwise. */
export function expectOne(
  what: string,
  all: readonly RecordedMessage[],
  wanted: Wanted,
  payload: unknown,
): RecordedMessage {
  const { type, version } = typeOf(wanted);
  const candidates = all.filter((one) => one.type === type && (version === undefined || one.version === version));
  const found = payload === undefined ? candidates[0] : candidates.find((one) => matches(one.payload, plain(payload)));
  if (found !== undefined) return found;
  const there =
    candidates.length > 0 ? candidates.map(({ payload: seen }) => seen) : [...new Set(all.map((one) => one.type))];
  const shown = inspect(there, { depth: 4, breakLength: 100 });
  throw new assert.AssertionError({
    message:
      candidates.length > 0
        ? `No '${type}' was ${what} with ${inspect(payload)}; there are: ${shown}`
        : `No '${type}' was ${what}; there are: ${shown}`,
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

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && Object.getPrototypeOf(value) === Object.prototype;
}
/** Events as expectations: their fields count, not their class. */
function plain(value: unknown): unknown {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : value;
}
