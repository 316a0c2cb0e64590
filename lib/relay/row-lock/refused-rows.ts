import type { OutboxMessage } from '../../outbox-message.js';
import type { TransportRelayDependencies } from '../transport-parts.js';

/**
 * Rows under locks that the database does not let into the parked table or the archive, for a reason of their own. They stay
 * where they are, and would be published again at each pass.
 */
export class RefusedRows {
  /** By row. The latest last. */
  private readonly rows = new Map<string, RefusedRow>();

  constructor(readonly relay: Pick<TransportRelayDependencies, 'clock' | 'hooks'>) {}

  refuse(message: OutboxMessage, error: unknown, published: boolean): void {
    const { clock, hooks } = this.relay;
    const row = nameOf(message);
    const times = (this.rows.get(row)?.times ?? 0) + 1;
    const retryIn = Math.min(MAX_DELAY, FIRST_DELAY * 2 ** Math.min(times - 1, 20));
    this.rows.delete(row);
    if (this.rows.size >= MAX_KNOWN) this.rows.delete(this.rows.keys().next().value as string);
    this.rows.set(row, { times, until: clock.monotonic() + retryIn, published });
    hooks.emit('error', { operation: published ? 'settle' : 'park', error, retryIn });
  }

  /** Whether it is its turn: to be published or, once it was, to be settled. */
  mayTry(message: OutboxMessage): boolean {
    if (this.rows.size === 0) return true; // asked for every message
    const { until } = this.rows.get(nameOf(message)) ?? { until: 0 };
    return until <= this.relay.clock.monotonic();
  }

  /** By this instance, which could not settle it. */
  wasPublished(message: OutboxMessage): boolean {
    return this.rows.size > 0 && this.rows.get(nameOf(message))?.published === true;
  }

  /** How many are held back now. What was not refused again for long is gone, or was written by somebody. */
  get waiting(): number {
    const now = this.relay.clock.monotonic();
    let waiting = 0;
    for (const [row, { until }] of this.rows) {
      if (until > now) waiting += 1;
      else if (now - until > FORGET) this.rows.delete(row);
    }
    return waiting;
  }
}

interface RefusedRow {
  readonly times: number;
  /** Until when (monotonic) it is not tried. */
  readonly until: number;
  readonly published: boolean;
}

const nameOf = ({ parkedId, bucket, seq }: OutboxMessage): string => parkedId ?? `${bucket}/${seq}`;

/** Milliseconds. */
const FIRST_DELAY = 1_000;
const MAX_DELAY = 30_000;
const FORGET = 300_000;
/** Each is locked at every pass, with those that are published. */
const MAX_KNOWN = 10_000;
