import type { NewMessage } from '../outbox-message.js';
import type { EnqueueRuntime } from './runtime.js';
import type { Entry } from '../transaction/after-commit.js';

/** Who hears after the commit when the first of these messages falls due; of the others of a transaction that look tells. */
export function whenDue(written: readonly NewMessage[], runtime: Pick<EnqueueRuntime, 'workAppeared'>): Entry[] {
  const first = written.reduce((ms, message) => Math.min(ms, dueIn(message)), Infinity);
  if (first === Infinity) return [];
  const dueAt = performance.now() + first;
  const committed = (): void => runtime.workAppeared('parked', Math.max(0, dueAt - performance.now()) + EARLY);
  return [{ listener: { committed, rolledBack: () => undefined, perhaps: committed }, ids: [] }];
}

/** Milliseconds by which a timer may fire before its time: the database would say that nothing is due yet. */
const EARLY = 1;

/** Milliseconds; `Infinity` for what is not scheduled. */
function dueIn({ delay, deliverAt }: NewMessage): number {
  return delay ?? (deliverAt === null ? Infinity : deliverAt.getTime() - Date.now());
}
