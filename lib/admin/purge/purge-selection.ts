import { OutboxMessageError } from '../../outbox.errors.js';
import type { Duration } from '../../outbox-message.js';
import { parseUuid } from '../../message/uuid-v7.js';
import { refuse, refuseUnknown } from '../../options/refuse.js';
import { typeName } from '../../options/text-checks.js';
import { milliseconds } from '../../time/duration.js';
import { checkedText } from '../message-query.js';

/** What is to be deleted for good: all given conditions must hold, and one must be given. */
export interface PurgeSelection {
  /** At most 1,000. */
  ids?: readonly string[];
  key?: string;
  topic?: string;
  type?: string;
  transport?: string;
  /** Time since it was published, and of an old version since the edit. */
  olderThan?: Duration;
}
export interface CheckedPurge {
  readonly ids: readonly string[] | undefined;
  readonly texts: { readonly key?: string; readonly topic?: string; readonly type?: string };
  readonly transport: string | undefined;
  /** Milliseconds. */
  readonly olderThan: number;
}

const CONDITIONS = ['ids', 'key', 'topic', 'type', 'transport', 'olderThan'] as const;
const MAX_IDS = 1_000;

/** @throws OutboxMessageError `INVALID_MESSAGE` */
export function checkedPurge(selection: PurgeSelection): CheckedPurge {
  if (typeof selection !== 'object' || selection === null)
    refuse('purge', `a filter must be an object, not ${typeName(selection)}`);
  refuseUnknown(selection, CONDITIONS, 'purge');
  if (CONDITIONS.every((name) => selection[name] === undefined))
    throw new OutboxMessageError('INVALID_MESSAGE', 'purge: the filter is empty.', {
      hint: `Give at least one of ${CONDITIONS.join(', ')}.`,
    });
  const { ids, key, topic, type, transport, olderThan } = selection;
  const texts: { key?: string; topic?: string; type?: string } = {};
  for (const [name, given] of Object.entries({ key, topic, type })) {
    const text = checkedText('purge', name, given);
    if (text !== undefined) texts[name as keyof typeof texts] = text;
  }
  const age = olderThan === undefined ? 0 : milliseconds(olderThan);
  if (age === undefined) refuse('purge', `olderThan must be a duration such as '30d'`);
  return { ids: ids && checkedIds(ids), texts, transport, olderThan: age };
}

function checkedIds(ids: readonly string[]): string[] {
  if (!Array.isArray(ids) || ids.length === 0) refuse('purge', 'ids must be an array with at least one id');
  if (ids.length > MAX_IDS) refuse('purge', `ids has ${ids.length} ids, more than ${MAX_IDS}`);
  return [
    ...new Set(
      ids.map(
        (id, index) => parseUuid(id) ?? refuse('purge', `ids[${index}] is not a message id: a UUID has 36 characters`),
      ),
    ),
  ];
}
