import { OutboxMessageError } from '../outbox.errors.js';
import type { Duration, ParkedState } from '../outbox-message.js';
import { parseUuid } from '../message/uuid-v7.js';
import { refuse, refuseUnknown } from '../options/refuse.js';
import { typeName } from '../options/text-checks.js';
import { CHANGES, type Change, type MessageState } from '../store/admin-store.js';
import type { RowFilter } from '../store/inspect-store.js';
import { milliseconds } from '../time/duration.js';
import type { FailureGroup } from './failure-groups.js';
import { checkedText } from './message-query.js';
import { checkedStates } from './selection.js';

/** Which messages a bulk action means: all given conditions must hold, and one must be given. */
export interface BulkSelection {
  /** At most 10,000. They name parked messages: of what is ready, ask `OutboxService.cancel`. */
  ids?: readonly string[];
  key?: string;
  topic?: string;
  type?: string;
  transport?: string;
  /** As of `OutboxService`: by default `requeue` and `discard` change what is dead, with `ids` also what waits or is blocked; `cancel` all. */
  state?: MessageState | readonly MessageState[];
  /** Time since the enqueue. */
  olderThan?: Duration;
  youngerThan?: Duration;
  /** One of `failures()`: what failed like it. In place of `transport`, `type` and `topic`. */
  group?: Pick<FailureGroup, 'transport' | 'type' | 'topic' | 'error'>;
}

/** A selection that was checked. */
export interface CheckedBulk {
  readonly ids: readonly string[] | undefined;
  readonly states: readonly ParkedState[];
  /** What no relay can begin to send is deleted, too. */
  readonly ready: boolean;
  readonly filter: Omit<RowFilter, 'transport'>;
  readonly transport: string | undefined;
  /** As `failures()` writes it. */
  readonly error: string | undefined;
}

const CONDITIONS = [
  ...(['ids', 'key', 'topic', 'type', 'transport', 'state', 'olderThan', 'youngerThan', 'group'] as const),
];
const OF_GROUP = ['transport', 'type', 'topic'] as const;
const MAX_IDS = 10_000;

export function checkedBulk(action: Change, selection: BulkSelection): CheckedBulk {
  if (typeof selection !== 'object' || selection === null)
    refuse(action, `a filter must be an object, not ${typeName(selection)}`);
  refuseUnknown(selection, CONDITIONS, action);
  if (CONDITIONS.every((name) => selection[name] === undefined)) {
    throw new OutboxMessageError('INVALID_MESSAGE', `${action}: the filter is empty.`, {
      hint: `Give at least one of ${CONDITIONS.join(', ')}.`,
    });
  }
  const { ids, group } = selection;
  const { transport, type, topic, error } =
    group === undefined ? { ...selection, error: undefined } : ofGroup(action, selection);
  const filter: Record<string, string | number> = {};
  for (const [name, given] of Object.entries({ key: selection.key, topic, type })) {
    const text = checkedText(action, name, given);
    if (text !== undefined) filter[name] = text;
  }
  for (const name of ['olderThan', 'youngerThan'] as const) {
    if (selection[name] === undefined) continue;
    filter[name] = milliseconds(selection[name]) ?? refuse(action, `${name} must be a duration such as '5m'`);
  }
  return { ids: ids && checkedIds(action, ids), ...statesOf(action, selection), filter, transport, error };
}

function statesOf(action: Change, selection: BulkSelection): Pick<CheckedBulk, 'states' | 'ready'> {
  const { states } = checkedStates(action, selection);
  const onlyParked = selection.ids !== undefined || selection.group !== undefined;
  if (onlyParked && states?.includes('ready') === true)
    refuse(action, `state 'ready' does not go with ${selection.ids === undefined ? 'group' : 'ids'}`);
  return {
    states: CHANGES[action].filter((state) => states?.includes(state) ?? true),
    ready: action === 'cancel' && !onlyParked && (states?.includes('ready') ?? true),
  };
}

function ofGroup(action: Change, selection: BulkSelection): NonNullable<BulkSelection['group']> {
  const { group } = selection;
  if (typeof group !== 'object' || group === null)
    refuse(action, `group must be one of failures(), not ${typeName(group)}`);
  const twice = OF_GROUP.find((name) => selection[name] !== undefined);
  if (twice !== undefined) refuse(action, `group has a ${twice} of its own, so ${twice} must be left out`);
  for (const name of [...OF_GROUP, 'error'] as const)
    if (typeof group[name] !== 'string') refuse(action, `group must be one of failures(): its ${name} is no string`);
  return group;
}

function checkedIds(action: Change, ids: readonly string[]): string[] {
  if (!Array.isArray(ids) || ids.length === 0) refuse(action, 'ids must be an array with at least one id');
  if (ids.length > MAX_IDS) refuse(action, `ids has ${ids.length} ids, more than ${MAX_IDS}`);
  return [...new Set(ids.map((id, index) => parseUuid(id) ?? refuse(action, `ids[${index}] is no UUID`)))];
}

/** Ids that the audit names. */
const NAMED_IDS = 20;

/** What was asked, for people, as JSON. */
export function filterText({ ids, ...selection }: BulkSelection): string {
  const { group, ...rest } = selection;
  const named = group && { transport: group.transport, type: group.type, topic: group.topic, error: group.error };
  const some = ids && {
    ids: ids.slice(0, NAMED_IDS),
    ...(ids.length > NAMED_IDS ? { moreIds: ids.length - NAMED_IDS } : {}),
  };
  return JSON.stringify({ ...some, ...rest, ...(named === undefined ? {} : { group: named }) });
}
