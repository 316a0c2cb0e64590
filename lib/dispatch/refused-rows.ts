import type { OutboxMessage } from '../message.js';
import type { LaneDependencies } from './lane.types.js';

/**
 * Rows under locks that the database does not let into the parked table, for a reason of their own. They stay where they are,
 * and would be published again at each pass.
 */
export class RefusedRows {
  /** @internal By row; until when (monotonic) it is not published. The latest last. */
  readonly rows = new Map<string, { readonly times: number; readonly until: number }>();

  constructor(readonly lane: Pick<LaneDependencies, 'clock' | 'hooks'>) {}

  refuse(message: OutboxMessage, error: unknown): void {
    const { clock, hooks } = this.lane;
    const row = nameOf(message);
    const times = (this.rows.get(row)?.times ?? 0) + 1;
    const retryIn = Math.min(MAX_DELAY, FIRST_DELAY * 2 ** Math.min(times - 1, 20));
    this.rows.delete(row);
    if (this.rows.size >= MAX_KNOWN) this.rows.delete(this.rows.keys().next().value as string);
    this.rows.set(row, { times, until: clock.monotonic() + retryIn });
    hooks.emit('error', { operation: 'park', error, retryIn });
  }

  mayPublish(message: OutboxMessage): boolean {
    if (this.rows.size === 0) return true; // asked for every message
    const { until } = this.rows.get(nameOf(message)) ?? { until: 0 };
    return until <= this.lane.clock.monotonic();
  }

  /** How many are held back now. What was not refused again for long is gone, or was written by somebody. */
  get waiting(): number {
    const now = this.lane.clock.monotonic();
    let waiting = 0;
    for (const [row, { until }] of this.rows) {
      if (until > now) waiting += 1;
      else if (now - until > FORGET) this.rows.delete(row);
    }
    return waiting;
  }
}

const nameOf = ({ parkedId, bucket, seq }: OutboxMessage): string => parkedId ?? `${bucket}/${seq}`;

/** Milliseconds. */
const FIRST_DELAY = 1_000;
const MAX_DELAY = 30_000;
const FORGET = 300_000;
/** Each is locked at every pass, with those that are published. */
const MAX_KNOWN = 10_000;
