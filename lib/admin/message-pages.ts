import type { InspectStore, StoredRow } from '../store/inspect-store.js';
import { systemClock } from '../time/clock.js';
import { toFound, type FoundMessage } from './found-message.js';
import { readCursor, writeCursor, type CheckedQuery, type MessageQuery } from './message-query.js';
import { ofFilter } from './of-filter.js';

/** Some messages, and where to go on. */
export interface MessagePage {
  /** In the order of their states: dead, waiting, blocked, scheduled, ready, published. */
  readonly messages: readonly FoundMessage[];
  /** The cursor of the next page; `null`: this is the last one. */
  readonly next: string | null;
  /**
   * `false`: the time for a page was over before it was full, and `next` continues there. With `ids`: the tables were too long to
   * read whole, and a missing message may still exist.
   */
  readonly complete: boolean;
}

/** Names of transports by number, also of those that left the options; and the number of the one that is meant. */
export interface KnownTransports {
  readonly names: ReadonlyMap<number, string>;
  readonly number: number | undefined;
}

/** Milliseconds for a page: a filter that few messages match goes on with the next one. */
const PAGE_TIME = 200;

export async function namedMessages(
  inspect: InspectStore,
  ids: readonly string[],
  query: CheckedQuery,
  { names, number }: KnownTransports,
): Promise<MessagePage> {
  const { rows, isComplete } = await inspect.byIds(ids);
  const messages = ofFilter(rows, query, number).map((row) => toFound(row, names));
  return { messages, next: null, complete: isComplete };
}

/** A page of what matches, state by state, each in the order of its index. */
export async function listMessages(
  inspect: InspectStore,
  query: MessageQuery,
  { states, filter }: CheckedQuery,
  { names, number }: KnownTransports,
  { limit, after }: { limit: number; after: string | undefined },
): Promise<MessagePage> {
  const end = systemClock.monotonic() + PAGE_TIME;
  const begin = after === undefined ? undefined : readCursor(after, query);
  const found: StoredRow[] = [];
  let [position, looks] = [begin?.position ?? null, 0];
  for (const state of begin === undefined ? states : states.slice(states.indexOf(begin.state))) {
    do {
      if (found.length >= limit || (looks > 0 && systemClock.monotonic() > end))
        return pageOf(found, names, writeCursor({ state, position }, query), limit);
      looks += 1;
      const transport = number === undefined ? {} : { transport: number };
      const page = await inspect.find({
        ...filter,
        ...transport,
        state,
        after: position,
        limit: limit - found.length,
      });
      found.push(...page.rows);
      position = page.next;
    } while (position !== null);
  }
  return pageOf(found, names, null, limit);
}

function pageOf(
  rows: readonly StoredRow[],
  names: KnownTransports['names'],
  next: string | null,
  limit: number,
): MessagePage {
  const messages = rows.map((row) => toFound(row, names));
  return { messages, next, complete: next === null || rows.length >= limit };
}
