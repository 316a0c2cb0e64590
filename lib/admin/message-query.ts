import { createHash } from 'node:crypto';
import type { Duration } from '../outbox-message.js';
import { refuse } from '../options/refuse.js';
import type { RowFilter, StoredState } from '../store/inspect-store.js';
import { HINT } from '../store/position.js';
import { parsed } from './content-view.js';
import { checkedFilter, checkedIds, checkedStates, checkObject, MAX_LIMIT } from './checks.js';

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

/** A query that was checked. */
export interface CheckedQuery {
  readonly ids: readonly string[] | undefined;
  readonly states: readonly StoredState[];
  /** The transport is still a name. */
  readonly filter: Omit<RowFilter, 'transport'>;
}

export function checkedQuery(query: MessageQuery): CheckedQuery {
  checkObject('find', 'a filter', query, CONDITIONS);
  const { state } = query;
  const ids = checkedIds('find', query.ids, MAX_LIMIT);
  const unless = ids === undefined ? STATES.filter((each) => each !== 'published') : STATES;
  return { ids, states: checkedStates('find', STATES, state ?? unless), filter: checkedFilter('find', query) };
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
  const parts = parsed(text, (cursor) => JSON.parse(Buffer.from(cursor, 'base64url').toString()) as unknown);
  if (!Array.isArray(parts) || parts.length !== 4) return refuseCursor();
  const [version, hash, state, position] = parts as unknown[];
  const isState = (STATES as readonly unknown[]).includes(state);
  if (version !== VERSION || hash !== hashOf(query) || !isState) return refuseCursor();
  if (position !== null && typeof position !== 'string') return refuseCursor();
  return { state: state as StoredState, position };
}

const VERSION = 1;

/** Of what was asked, in whatever order it was written. */
function hashOf(query: MessageQuery): string {
  const asked = CONDITIONS.map((name) => query[name] ?? null);
  return createHash('sha256').update(JSON.stringify(asked)).digest('hex').slice(0, 16);
}

function refuseCursor(): never {
  refuse('find', 'after is not a cursor of this filter', 'INVALID_MESSAGE', HINT);
}
