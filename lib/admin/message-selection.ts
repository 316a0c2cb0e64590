import type { Duration, ParkedState } from '../outbox-message.js';
import { refuse } from '../options/refuse.js';
import { typeName } from '../options/text-checks.js';
import { CHANGES, type Change, type MessageState } from '../store/admin-store.js';
import type { RowFilter } from '../store/inspect-store.js';
import { checkedFilter, checkedIds, checkedStates, checkNotEmpty, checkObject } from './checks.js';
import type { FailureGroup } from './failure-groups.js';

/** Which messages an operator means: all given conditions must hold, and one must be given. */
export interface MessageSelection {
  /** At most 10,000. */
  ids?: readonly string[];
  /** Beside `ids` it makes the call cheap while much is ready: one bucket is looked through, and not all of them. */
  key?: string;
  topic?: string;
  type?: string;
  transport?: string;
  /**
   * Where they are: `requeue` and `discard` change those that are `'dead'`, `'waiting'` (for their next attempt) or `'blocked'`
   * (behind another one of their key), `cancel` also what is `'scheduled'` or `'ready'`. Default: with `ids` all of these; else
   * for `requeue` and `discard` `'dead'` alone, as what waits behind a dead message is healthy, and for `cancel` all.
   */
  state?: MessageState | readonly MessageState[];
  /** Time since the enqueue. */
  olderThan?: Duration;
  youngerThan?: Duration;
  /** One of `failures()`: what failed like it. In place of `transport`, `type` and `topic`. */
  group?: Pick<FailureGroup, 'transport' | 'type' | 'topic' | 'error'>;
}

/** A selection that was checked. */
export interface CheckedSelection {
  readonly ids: readonly string[] | undefined;
  readonly states: readonly ParkedState[];
  /** What no relay can begin to send is deleted, too. */
  readonly ready: boolean;
  readonly filter: Omit<RowFilter, 'transport'>;
  readonly transport: string | undefined;
  /** As `failures()` writes it. */
  readonly error: string | undefined;
}

const CONDITIONS = ['ids', 'key', 'topic', 'type', 'transport', 'state', 'olderThan', 'youngerThan', 'group'] as const;
const OF_GROUP = ['transport', 'type', 'topic'] as const;
const MAX_IDS = 10_000;

export function checkedSelection(action: Change, selection: MessageSelection): CheckedSelection {
  checkObject(action, 'a filter', selection, CONDITIONS);
  checkNotEmpty(action, selection, CONDITIONS);
  const { group, key, olderThan, youngerThan } = selection;
  const of: Pick<MessageSelection, (typeof OF_GROUP)[number]> & { error?: string } =
    group === undefined ? selection : ofGroup(action, selection);
  return {
    ids: checkedIds(action, selection.ids, MAX_IDS),
    ...statesOf(action, selection),
    filter: checkedFilter(action, {
      ...{ key, topic: of.topic, type: of.type, olderThan, youngerThan },
    } as MessageSelection),
    transport: of.transport,
    error: group?.error,
  };
}

function statesOf(action: Change, { state, ids, group }: MessageSelection): Pick<CheckedSelection, 'states' | 'ready'> {
  const allowed: readonly MessageState[] = action === 'cancel' ? ['ready', ...CHANGES.cancel] : CHANGES[action];
  const isDeadAlone = action !== 'cancel' && ids === undefined;
  const states = checkedStates(action, allowed, state ?? (isDeadAlone ? ['dead'] : allowed));
  if (group !== undefined && state !== undefined && states.includes('ready'))
    refuse(action, `state 'ready' does not go with group`);
  return {
    states: CHANGES[action].filter((each) => states.includes(each)),
    ready: group === undefined && states.includes('ready'),
  };
}

function ofGroup(action: Change, selection: MessageSelection): NonNullable<MessageSelection['group']> {
  const { group } = selection;
  if (typeof group !== 'object' || group === null)
    refuse(action, `group must be one of failures(), not ${typeName(group)}`);
  const twice = OF_GROUP.find((name) => selection[name] !== undefined);
  if (twice !== undefined) refuse(action, `group has a ${twice} of its own, so ${twice} must be left out`);
  for (const name of [...OF_GROUP, 'error'] as const)
    if (typeof group[name] !== 'string') refuse(action, `group must be one of failures(): its ${name} is no string`);
  return group;
}

/** Ids that the audit names. */
const NAMED_IDS = 20;

/** What was asked, for people, as JSON. */
export function filterText({ ids, ...selection }: MessageSelection): string {
  const { group, ...rest } = selection;
  const named = group && { transport: group.transport, type: group.type, topic: group.topic, error: group.error };
  const some = ids && {
    ids: ids.slice(0, NAMED_IDS),
    ...(ids.length > NAMED_IDS ? { moreIds: ids.length - NAMED_IDS } : {}),
  };
  return JSON.stringify({ ...some, ...rest, ...(named === undefined ? {} : { group: named }) });
}
