import type { OutboxMessage } from '../../outbox-message.js';

/**
 * How many messages in a row may be put off because of their destinations before that is an outage of the transport: each one
 * that gets through allows one more, up to {@link MOST}. While most get through, those that cannot go aside one by one; a whole
 * cluster that refuses is noticed after so many, and all others stay where they are. Each time that the circuit asks whether the
 * broker is back, so many may go aside again, or those in front would keep the others from being asked.
 */
export class PuttingOff {
  left = 0;

  get isFull(): boolean {
    return this.left === MOST;
  }

  refill(): void {
    this.left = MOST;
  }

  gotThrough(): void {
    if (this.left < MOST) this.left += 1;
  }

  /** @returns whether one more may be put off */
  spend(): boolean {
    if (this.left === 0) return false;
    this.left -= 1;
    return true;
  }
}

const MOST = 50;

/**
 * Milliseconds to the next try: about as long again as it is since the message was created, between a second and a minute. So
 * nothing needs to be counted, and what has waited for hours asks once a minute.
 *
 * @param now milliseconds since the epoch, by the clock that said when the message was created: the database's
 * @param random 0 ≤ x < 1
 */
export function delayFor({ createdAt }: OutboxMessage, now: number, random: number): number {
  // Plain SQL can say `infinity`, which is no date here.
  return waitAfter(now - createdAt.getTime() || 0, random);
}

/** Milliseconds: about as long again, between a second and a minute. */
export function waitAfter(ms: number, random: number): number {
  return Math.round(Math.min(60_000, Math.max(1_000, ms)) * (0.5 + random / 2));
}

/**
 * When messages that wait for a key try again, one after the other: in a second while they are few, later the more they are. So
 * they cost the others little, and a thousand of them go out within five seconds of the key's return.
 */
export class Turns {
  /** Monotonic milliseconds of the last one. */
  private last = -Infinity;

  /** @returns milliseconds until the next one's */
  next(now: number): number {
    this.last = Math.min(Math.max(this.last + BETWEEN_TURNS, now + FIRST_TURN), now + LAST_TURN);
    return Math.round(this.last - now);
  }
}

const FIRST_TURN = 1_000;
const BETWEEN_TURNS = 4;
const LAST_TURN = 60_000;
