import { refuse } from '../options/refuse.js';
import { printable } from '../observe/redact/printable.js';
import type { FailureRequest, FailureRow } from '../store/inspect-store.js';
import { checkedFilter, checkObject } from './checks.js';
import { nameOf } from './found-message.js';

/** Which failures are meant: all given conditions must hold. */
export interface FailureQuery {
  transport?: string;
  topic?: string;
  type?: string;
  /** Default: both. */
  state?: 'dead' | 'waiting' | readonly ('dead' | 'waiting')[];
}
/** Failures that are alike: of one transport, type and topic, and of one text but for numbers, ids and quoted values. */
export interface FailureGroup {
  readonly transport: string;
  readonly type: string;
  readonly topic: string;
  /** The text with `<n>`, `<uuid>`, `<hex>` and `'…'` in place of what differs; empty: none is known. */
  readonly error: string;
  readonly count: number;
  readonly dead: number;
  readonly waiting: number;
  /** When the first of these messages failed last. */
  readonly firstSeen: Date | null;
  readonly lastSeen: Date | null;
  /** Of a message that failed last. */
  readonly exampleId: string;
}
export interface FailureReport {
  /** Those with most messages first. */
  readonly groups: readonly FailureGroup[];
  /** Groups that are left out, as there are more than 100. */
  readonly more: number;
  /** Messages that were looked at. */
  readonly looked: number;
  /** `true`: there may be more messages than were looked at. The counts are of these. */
  readonly cut: boolean;
}
const MAX_GROUPS = 100;
/** Messages of each state. */
export const FAILURE_LOOK = 10_000;
const FAILED = ['dead', 'waiting'] as const;
const LONGEST = 300;

export function checkedFailures(
  query: FailureQuery,
): Omit<FailureRequest, 'transport' | 'look'> & Pick<FailureQuery, 'transport'> {
  checkObject('failures', 'a filter', query, ['transport', 'topic', 'type', 'state']);
  const { transport, topic, type, state = FAILED } = query;
  const given: readonly unknown[] = [state].flat();
  const states = FAILED.filter((each) => given.includes(each));
  if (states.length === 0 || given.some((each) => !(FAILED as readonly unknown[]).includes(each)))
    refuse('failures', `state must be one of ${FAILED.join(', ')}, or both`);
  const texts = checkedFilter('failures', {
    ...(topic === undefined ? {} : { topic }),
    ...(type === undefined ? {} : { type }),
  });
  return { states, ...texts, ...(transport === undefined ? {} : { transport }) };
}

const UUID = /\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b/gi;
/** An apostrophe inside a word is no quote. */
const QUOTED = /"[^"]*"|`[^`]*`|(?<!\w)'[^']*'(?!\w)/g;
const HEX = /\b(?:0x[0-9a-f]+|(?=[0-9a-f]*\d)[0-9a-f]{8,})\b/gi;
const NUMBER = /\d+(?:\.\d+)*/g;

/** What of an error is the same for all messages that fail alike. */
export function normalizedError(error: string): string {
  const text = printable(error)
    .replace(UUID, '<uuid>')
    .replace(QUOTED, (quoted) => `${quoted[0]}…${quoted[0]}`)
    .replace(HEX, (hex) => (/^\d+$/.test(hex) ? hex : '<hex>'))
    .replace(NUMBER, '<n>');
  return text.length <= LONGEST ? text : `${text.slice(0, LONGEST - 1)}…`;
}

export function grouped(
  { rows, looked, cut }: { readonly rows: readonly FailureRow[]; readonly looked: number; readonly cut: boolean },
  names: ReadonlyMap<number, string>,
): FailureReport {
  const groups = new Map<string, FailureGroup>();
  for (const row of rows) {
    const group = groupOf(row, names);
    const name = JSON.stringify([group.transport, group.type, group.topic, group.error]);
    const before = groups.get(name);
    groups.set(name, before === undefined ? group : merged(before, group));
  }
  const all = [...groups.values()].sort((a, b) => b.count - a.count);
  return { groups: all.slice(0, MAX_GROUPS), more: Math.max(0, all.length - MAX_GROUPS), looked, cut };
}

function groupOf(row: FailureRow, names: ReadonlyMap<number, string>): FailureGroup {
  const { type, topic, error, state, count, firstSeen, lastSeen, exampleId } = row;
  return {
    transport: nameOf(row.transport, names),
    type,
    topic,
    error: normalizedError(error),
    count,
    dead: state === 'dead' ? count : 0,
    waiting: state === 'waiting' ? count : 0,
    firstSeen,
    lastSeen,
    exampleId,
  };
}

function merged(a: FailureGroup, b: FailureGroup): FailureGroup {
  const isLater = (b.lastSeen?.getTime() ?? 0) > (a.lastSeen?.getTime() ?? 0);
  return {
    ...a,
    count: a.count + b.count,
    dead: a.dead + b.dead,
    waiting: a.waiting + b.waiting,
    firstSeen: a.firstSeen !== null && b.firstSeen !== null && b.firstSeen < a.firstSeen ? b.firstSeen : a.firstSeen,
    lastSeen: isLater ? b.lastSeen : a.lastSeen,
    exampleId: isLater ? b.exampleId : a.exampleId,
  };
}
