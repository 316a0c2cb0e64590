import { OutboxMessageError } from '../outbox.errors.js';
import { CHANGES, type Change, type MessageFilter, type MessageState } from '../store/admin-store.js';
import { refuse, refuseUnknown } from '../options/refuse.js';
import { typeName } from '../options/text-checks.js';
import { parseUuid } from '../message/uuid-v7.js';

/** Which messages an operator means: all given conditions must hold, and one must be given. */
export interface MessageSelection {
  ids?: readonly string[];
  transport?: string;
  /** Beside `ids` it makes the call cheap while much is ready: one bucket is looked through, and not all of them. */
  key?: string;
  topic?: string;
  type?: string;
  /**
   * Where they are: `requeue` and `discard` change those that are `'dead'`, `'waiting'` (for their next attempt) or `'blocked'`
   * (behind another one of their key), `cancel` also what is `'scheduled'` or `'ready'`. Default: with `ids` all of these; else
   * for `requeue` and `discard` `'dead'` alone, as what waits behind a dead message is healthy, and for `cancel` all.
   */
  state?: MessageState | readonly MessageState[];
  /**
   * The most messages to touch, each counted once for each of its transports. Default 100,000, which is the most; with `ids`
   * as many as they name. The report says how many it left out.
   */
  limit?: number;
}

/** A selection that is only counted. */
export interface DryRun {
  /** Nothing is changed. */
  dryRun: true;
}
/** What a call would change now, each message counted once for each of its transports; `limit` at most. */
export interface OperatorCount {
  readonly count: number;
}

const CONDITIONS = ['ids', 'transport', 'key', 'topic', 'type', 'state'] as const;
const TEXTS = ['key', 'topic', 'type'] as const;
const MAX_LIMIT = 100_000;

export function toFilter(
  operation: Change | 'release',
  selection: MessageSelection,
  transportId: (name: string, subject: string) => number,
  transports: number,
): MessageFilter {
  if (typeof selection !== 'object' || selection === null)
    refuse(operation, `a filter must be an object, not ${typeName(selection)}`);
  refuseUnknown(selection, [...CONDITIONS, 'limit', ...(mayCount(operation) ? ['dryRun'] : [])], operation);
  if (CONDITIONS.every((name) => selection[name] === undefined)) {
    throw new OutboxMessageError('INVALID_MESSAGE', `${operation}: the filter is empty.`, {
      hint: `Give at least one of ${CONDITIONS.join(', ')}.`,
    });
  }
  const { transport, ids } = selection;
  const texts: { key?: string; topic?: string; type?: string } = {};
  for (const name of TEXTS) {
    const text: unknown = selection[name];
    if (text === undefined) continue;
    if (typeof text !== 'string' || text === '') refuse(operation, `${name} must be a string that is not empty`);
    // No message has one: PostgreSQL would fail the statement.
    if (text.includes('\0')) refuse(operation, `${name} contains a NUL character`);
    texts[name] = text;
  }
  return {
    ...texts,
    ...(ids === undefined ? {} : { ids: checkedIds(operation, ids) }),
    ...(transport === undefined ? {} : { transport: transportId(transport, operation) }),
    ...checkedStates(operation, selection),
    limit: checkedLimit(operation, selection, transports),
  };
}

/** `cancel` may remove what is ready, too, which only the attempt tells. */
const mayCount = (operation: Change | 'release'): boolean => operation === 'requeue' || operation === 'discard';

export function checkedStates(
  operation: Change | 'release',
  { state, ids }: Pick<MessageSelection, 'state' | 'ids'>,
): Pick<MessageFilter, 'states'> {
  if (operation === 'release') return {};
  if (state === undefined) return mayCount(operation) && ids === undefined ? { states: ['dead'] } : {};
  const allowed: readonly unknown[] = operation === 'cancel' ? ['ready', ...CHANGES.cancel] : CHANGES[operation];
  const states: readonly unknown[] = Array.isArray(state) ? state : [state];
  if (states.length === 0) refuse(operation, `state must name one of ${allowed.join(', ')} at least`);
  for (const each of states) {
    if (allowed.includes(each)) continue;
    const given = typeof each === 'string' ? `'${each.slice(0, 100)}'` : typeName(each);
    refuse(operation, `state ${given} is not one of ${allowed.join(', ')}`);
  }
  return { states: states as readonly MessageState[] };
}

function checkedIds(operation: string, ids: readonly string[]): string[] {
  if (!Array.isArray(ids) || ids.length === 0) refuse(operation, 'ids must be an array with at least one id');
  return ids.map((id, index) => parseUuid(id) ?? refuse(operation, `ids[${index}] is no UUID`));
}

function checkedLimit(operation: string, { limit, ids = [] }: MessageSelection, transports: number): number {
  if (limit === undefined) return Math.max(MAX_LIMIT, ids.length * Math.max(1, transports));
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    refuse(operation, `limit must be a whole number from 1 to ${MAX_LIMIT}`);
  }
  return limit;
}
