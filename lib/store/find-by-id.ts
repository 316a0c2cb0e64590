import { OutboxError } from '../outbox.errors.js';
import { systemClock } from '../time/clock.js';
import { LOOK_TIMEOUT, QUICK_LOOK, type RowsById, type StoredRow } from './inspect-store.js';

/** How a store looks for ids in a table without an index of them. Each gives `undefined` when its time is over. */
export interface WaysToIds {
  /** Looks through the whole table. */
  all(deadline: number): Promise<StoredRow[] | undefined>;
  /** Looks where rows of the time in the ids stand. */
  near(deadline: number): Promise<StoredRow[] | undefined>;
  /** What is left to look at when the ids were not near. Default: `all`. */
  rest?(deadline: number): Promise<StoredRow[] | undefined>;
}

/** A small table is looked through; in a large one the time in an id leads to the place; then the rest is looked through. */
export async function findByIds(ids: readonly string[], ways: WaysToIds): Promise<RowsById> {
  const deadline = lookDeadline();
  const quick = await ways.all(systemClock.monotonic() + QUICK_LOOK);
  if (quick !== undefined) return { rows: quick, isComplete: true };
  const near = await ways.near(deadline);
  if (near !== undefined && new Set(near.map(({ id }) => id)).size === ids.length)
    return { rows: near, isComplete: true };
  const rest = await (ways.rest ?? ways.all)(deadline);
  return { rows: rest ?? near ?? [], isComplete: rest !== undefined };
}

export const lookDeadline = (): number => systemClock.monotonic() + LOOK_TIMEOUT;

export function outOfTime(): OutboxError {
  return new OutboxError('TIMEOUT', `The database has not answered within ${LOOK_TIMEOUT / 1_000} s.`, {
    hint: 'Ask again, for less: name the transport, the state or the key.',
  });
}
