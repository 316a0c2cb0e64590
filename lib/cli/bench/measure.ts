import type { OutboxError } from '../../outbox.errors.js';
import { stopwatch, systemClock } from '../../time/clock.js';
import type { Interrupt } from '../interrupt.js';
import type { Scratch } from './scratch.js';

export interface BenchSettings {
  /** Messages of each enqueue. */
  readonly messages: number;
  /** Milliseconds that one measurement takes at most. */
  readonly most: number;
  readonly payloadBytes: number;
}
export interface Rate {
  readonly messages: number;
  readonly seconds: number;
  readonly perSecond: number;
}

/** Keys, so that order is kept as in an application. */
const KEYS = 1_000;
/** Milliseconds after which a drain that goes on is looked at. */
const LOOK = 250;

type Ended = Pick<Interrupt, 'isAsked'>;

/** Each message in a transaction of its own. */
export async function measureEnqueue(
  { service }: Scratch,
  writers: number,
  { messages, most, payloadBytes }: BenchSettings,
  interrupt: Ended,
): Promise<Rate> {
  const payload = { text: 'x'.repeat(payloadBytes) };
  const elapsed = stopwatch(systemClock);
  let [begun, written] = [0, 0];
  const write = async (): Promise<void> => {
    while (begun < messages && elapsed() < most && !interrupt.isAsked) {
      const key = `key-${begun++ % KEYS}`;
      await service.transaction(() => service.enqueue({ type: 'bench', topic: 'bench', key, payload }));
      written++;
    }
  };
  await Promise.all(Array.from({ length: writers }, write));
  return rate(written, elapsed());
}

/** From the first read until all is settled, or the time is over. */
export async function measureDrain(
  { dispatcher, published }: Scratch,
  { most }: BenchSettings,
  interrupt: Ended,
): Promise<Rate> {
  const elapsed = stopwatch(systemClock);
  while (elapsed() < most && !interrupt.isAsked) {
    try {
      await dispatcher.drain({ timeout: LOOK });
      break;
    } catch (error) {
      if (!isTimeout(error)) throw error;
    }
  }
  const took = elapsed();
  await dispatcher.stop();
  return rate(published(), took);
}

/** Whose class it is of: the application may have another copy. */
const isTimeout = (error: unknown): boolean => (error as Partial<OutboxError> | null)?.code === 'TIMEOUT';

function rate(messages: number, ms: number): Rate {
  return {
    messages,
    seconds: Math.round(ms) / 1_000,
    perSecond: ms === 0 ? 0 : Math.round((messages / ms) * 1_000),
  };
}
