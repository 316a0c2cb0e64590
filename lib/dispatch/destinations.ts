import type { OutboxMessage } from '../message.js';
import { waitAfter } from './putting-off.js';

/** A destination that takes nothing now, while others may. */
export interface AwayDestination {
  readonly name: string;
  /** Milliseconds since its first failure. */
  readonly awayFor: number;
  /** Times that a message to it was put off. */
  readonly putOff: number;
  readonly error: string;
}

interface Away {
  readonly since: number;
  lastAt: number;
  putOff: number;
  error: string;
  /** Of `passed`, when it failed first. */
  readonly passedBefore: number;
}

/**
 * SEAM: which destinations of one transport take nothing now, by the names that {@link PublishFailure.destination} gave them
 * (an exchange with a routing key, a topic, the key of an encrypted payload). The first message that gets through to one
 * takes it off the list. Kept in memory: a restart learns it again from the first failure.
 */
export class Destinations {
  /** @internal */ readonly away = new Map<string, Away>();
  /** Messages that got through to other destinations while some were away. @internal */
  passed = 0;

  /** @param namesOf what of a message could be away: asked only while something is */
  constructor(readonly namesOf: (message: OutboxMessage) => readonly string[]) {}

  get areThere(): boolean {
    return this.away.size === 0;
  }

  /**
   * @param now monotonic
   * @returns whether that is news
   */
  failed(name: string, error: string, now: number): boolean {
    const known = this.away.get(name);
    if (known !== undefined) Object.assign(known, { lastAt: now, error, putOff: known.putOff + 1 });
    else {
      if (this.away.size >= MOST) this.away.delete(this.away.keys().next().value as string);
      this.away.set(name, { since: now, lastAt: now, putOff: 1, error, passedBefore: this.passed });
    }
    return known === undefined;
  }

  gotThrough(message: OutboxMessage): void {
    if (this.away.size === 0) return;
    for (const name of this.namesOf(message)) this.away.delete(name);
    this.passed += 1;
  }

  /** Others got through since it went away: that is no outage of the transport, however many of its messages fail. */
  isProved(name: string): boolean {
    const away = this.away.get(name);
    return away !== undefined && this.passed > away.passedBefore;
  }

  /** Milliseconds to the next try: about as long again as it has been away. @param random 0 ≤ x < 1 */
  delay(name: string, now: number, random: number): number {
    return waitAfter(now - (this.away.get(name)?.since ?? now), random);
  }

  /** Those that are away, the longest first. One that nobody asked for a while may be back, and is no news. */
  list(now: number): AwayDestination[] {
    for (const [name, { lastAt }] of this.away) if (now - lastAt > FORGOTTEN) this.away.delete(name);
    return [...this.away].map(([name, { since, putOff, error }]) => ({ name, awayFor: now - since, putOff, error }));
  }
}

const MOST = 1_000;
/** Milliseconds: longer than a message is put off for and then takes to fail again. */
const FORGOTTEN = 180_000;
