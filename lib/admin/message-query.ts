import { createHash } from 'node:crypto';
import type { Duration } from '../outbox-message.js';
import { refuse, refuseUnknown } from '../options/refuse.js';
import { typeName } from '../options/text-checks.js';
import { parseUuid } from '../message/uuid-v7.js';
import type { RowFilter, StoredState } from '../store/inspect-store.js';
import { ROW_LIMITS } from '../store/limits.js';
import { HINT } from '../store/position.js';
import { milliseconds } from '../time/duration.js';

/** Which messages are meant: all given conditions must hold. */
export interface MessageQuery {
  /** At most 500. */
  ids?: readonly string[];
  /** With it one bucket is looked through, and not all of them. */
  key?: string;
  type?: string;
  topic?: string;
  transport?: string;
  /** Default: all but `'published'`; with `ids` all. */
  state?: StoredState | readonly StoredState[];
  /** Since the enqueue. */
  olderThan?: Duration;
  /** Since the enqueue. */
  youngerThan?: Duration;
}
export interface PageOptions {
  /** 50 by default, 500 at most. */
  limit?: number;
  /** `next` of the page before. */
  after?: string;
}

/** What needs somebody comes first. */
export const STATES: readonly StoredState[] = ['dead', 'waiting', 'blocked', 'scheduled', 'ready', 'published'];
const CONDITIONS = ['ids', 'key', 'type', 'topic', 'transport', 'state', 'olderThan', 'youngerThan'] as const;
const DEFAULT_LIMIT = 50;
export const MAX_LIMIT = 500;

/** A query that was checked. */
export interface CheckedQuery {
  readonly ids: readonly string[] | undefined;
  readonly states: readonly StoredState[];
  /** The transport is still a name. */
  readonly filter: Omit<RowFilter, 'transport'>;
}

export function checkedQuery(query: MessageQuery): CheckedQuery {
  if (typeof query !== 'object' || query === null) refuse('find', `a filter must be an object, not ${typeName(query)}`);
  refuseUnknown(query, CONDITIONS, 'find');
  const { ids, state } = query;
  const filter: Record<string, string | number> = {};
  for (const name of ['key', 'topic', 'type'] as const) {
    const text = checkedText('find', name, query[name]);
    if (text !== undefined) filter[name] = text;
  }
  for (const name of ['olderThan', 'youngerThan'] as const) {
    if (query[name] === undefined) continue;
    filter[name] = milliseconds(query[name]) ?? refuse('find', `${name} must be a duration such as '5m'`);
  }
  return { ids: ids === undefined ? undefined : checkedIds(ids), states: checkedStates(state, ids), filter };
}

/** Characters: a column takes as many bytes. What is longer would not fit into the audit. */
const MAX_TEXT = ROW_LIMITS.topic;

export function checkedText(subject: string, name: string, text: unknown): string | undefined {
  if (text === undefined) return undefined;
  if (typeof text !== 'string' || text === '') refuse(subject, `${name} must be a string that is not empty`);
  // No message has one: PostgreSQL would fail the statement.
  if (text.includes('\0')) refuse(subject, `${name} contains a NUL character`);
  if (text.length > MAX_TEXT) refuse(subject, `${name} has ${text.length} characters, more than any message has`);
  return text;
}

export function checkedPage(page: PageOptions): { limit: number; after: string | undefined } {
  if (typeof page !== 'object' || page === null) refuse('find', `a page must be an object, not ${typeName(page)}`);
  refuseUnknown(page, ['limit', 'after'], 'find');
  const { limit = DEFAULT_LIMIT, after } = page;
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT)
    refuse('find', `limit must be a whole number from 1 to ${MAX_LIMIT}`);
  if (after !== undefined && typeof after !== 'string') refuseCursor();
  return { limit, after };
}

function checkedIds(ids: readonly string[]): string[] {
  if (!Array.isArray(ids) || ids.length === 0) refuse('find', 'ids must be an array with at least one id');
  if (ids.length > MAX_LIMIT) refuse('find', `ids has ${ids.length} ids, more than ${MAX_LIMIT}`);
  return [
    ...new Set(
      ids.map(
        (id, index) => parseUuid(id) ?? refuse('find', `ids[${index}] is not a message id: a UUID has 36 characters`),
      ),
    ),
  ];
}

function checkedStates(state: MessageQuery['state'], ids: MessageQuery['ids']): readonly StoredState[] {
  if (state === undefined) return ids === undefined ? STATES.filter((each) => each !== 'published') : STATES;
  const given: readonly unknown[] = Array.isArray(state) ? state : [state];
  if (given.length === 0) refuse('find', `state must name one of ${STATES.join(', ')} at least`);
  for (const each of given) {
    if ((STATES as readonly unknown[]).includes(each)) continue;
    const text = typeof each === 'string' ? `'${each.slice(0, 100)}'` : typeName(each);
    refuse('find', `state ${text} is not one of ${STATES.join(', ')}`);
  }
  return STATES.filter((each) => given.includes(each));
}

/** Where a page begins: in which state, and behind which row of it. */
export interface Cursor {
  readonly state: StoredState;
  readonly position: string | null;
}

export function writeCursor({ state, position }: Cursor, query: MessageQuery): string {
  return Buffer.from(JSON.stringify([VERSION, hashOf(query), state, position])).toString('base64url');
}

/** A cursor of another filter would leave out messages. */
export function readCursor(text: string, query: MessageQuery): Cursor {
  const parts = parsed(text);
  if (!Array.isArray(parts) || parts.length !== 4) return refuseCursor();
  const [version, hash, state, position] = parts as unknown[];
  const isState = (STATES as readonly unknown[]).includes(state);
  if (version !== VERSION || hash !== hashOf(query) || !isState) return refuseCursor();
  if (position !== null && typeof position !== 'string') return refuseCursor();
  return { state: state as StoredState, position };
}

const VERSION = 1;

function parsed(text: string): unknown {
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString()) as unknown;
  } catch {
    return undefined;
  }
}

/** Of what was asked, in whatever order it was written. */
function hashOf(query: MessageQuery): string {
  const asked = CONDITIONS.map((name) => query[name] ?? null);
  return createHash('sha256').update(JSON.stringify(asked)).digest('hex').slice(0, 16);
}

function refuseCursor(): never {
  refuse('find', 'after is not a cursor of this filter', 'INVALID_MESSAGE', HINT);
}
