import type { ResolvedOptions } from '../outbox.options.js';
import type { OutboxStore } from '../store/outbox-store.js';
import { systemClock, within } from '../time/clock.js';
import { durationText } from '../time/duration.js';
import { found, isOk, type Finding } from '../transports/diagnosis.js';
import type { Interview } from './interview.js';

/** Milliseconds for a notification of our own. */
const ECHO = 2_000;

type Heard = 'polls' | 'none arrives' | 'cannot listen' | 'heard';

/** Listens, and sends a notification to itself: one that a relay hears, too, and looks for messages once more. */
export async function askWakeUp(
  interview: Interview,
  store: Pick<OutboxStore, 'listen' | 'notify'>,
  options: Pick<ResolvedOptions, 'wakeUp' | 'pollInterval' | 'database'>,
): Promise<void> {
  const heard = await interview.ask('Whether notifications arrive', () => listen(store, options));
  if (heard !== undefined) interview.note([judgeWakeUp(heard, options)]);
}

async function listen(
  store: Pick<OutboxStore, 'listen' | 'notify'>,
  { wakeUp }: Pick<ResolvedOptions, 'wakeUp'>,
): Promise<Heard> {
  if (wakeUp === 'poll' || store.listen === undefined || store.notify === undefined) return 'polls';
  let arrived!: () => void;
  const echo = new Promise<void>((resolve) => (arrived = resolve));
  const listening = await store.listen(arrived, () => undefined);
  if (listening === undefined) return 'cannot listen';
  try {
    await store.notify();
    return (await within(systemClock, ECHO, echo)) ? 'heard' : 'none arrives';
  } finally {
    await listening.close();
  }
}

/** Pure. */
export function judgeWakeUp(
  heard: Heard,
  { pollInterval, database }: Pick<ResolvedOptions, 'pollInterval' | 'database'>,
): Finding {
  const evidence = {
    notifications: heard,
    pollIntervalMs: pollInterval,
    listensPast: typeof database.pooler === 'string',
  };
  if (heard === 'heard') return isOk('wake-up', 'A notification of our own arrived.', evidence);
  const late = `What other processes commit is noticed after ${durationText(pollInterval)} at most.`;
  if (heard === 'polls') return isOk('wake-up', `Relays poll. ${late}`, evidence);
  const text =
    heard === 'cannot listen'
      ? 'Relays cannot listen through the pooler, and poll.'
      : 'LISTEN is accepted, and no notification arrives, not even our own.';
  return found(
    'wake-up',
    heard === 'cannot listen' ? 'note' : 'warning',
    { text, evidence },
    late,
    "Give database.pooler the address of PostgreSQL itself, or say wakeUp: 'poll'.",
  );
}
