import type { Duration } from '../../outbox-message.js';
import type { RowFilter } from '../../store/inspect-store.js';
import { checkedFilter, checkedIds, checkNotEmpty, checkObject } from '../checks.js';

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
  readonly texts: Pick<RowFilter, 'key' | 'topic' | 'type'>;
  readonly transport: string | undefined;
  /** Milliseconds. */
  readonly olderThan: number;
}

const CONDITIONS = ['ids', 'key', 'topic', 'type', 'transport', 'olderThan'] as const;
const MAX_IDS = 1_000;

/** @throws OutboxMessageError `INVALID_MESSAGE` */
export function checkedPurge(selection: PurgeSelection): CheckedPurge {
  checkObject('purge', 'a filter', selection, CONDITIONS);
  checkNotEmpty('purge', selection, CONDITIONS);
  const { olderThan = 0, ...texts } = checkedFilter('purge', selection);
  return { ids: checkedIds('purge', selection.ids, MAX_IDS), texts, transport: selection.transport, olderThan };
}
