import type { Clock } from '../time/clock.js';
import type { PublishFailure } from '../transports/transport.js';

/**
 * What is known of the keys of encrypted payloads. A `decrypt` that fails says little of the message, as whoever keeps the key
 * may be away: that is an outage of this key, in which one message at a time asks whether it is back. Who asked lets others ask
 * before it asks again: were it always the first of them, one that cannot be decrypted would be the only one. A message that fails
 * three times, each time while others of its key get through, is at fault itself.
 */
export class KeyServices {
  readonly away = new Map<string, Away>();
  /** Payloads that were opened, by key. */
  readonly counts = new Map<string, number>();
  /** By the id of the message. */
  readonly strikes = new Map<string, Strikes>();

  constructor(readonly clock: Pick<Clock, 'monotonic'>) {}

  /** Whether `decrypt` may be asked, and what {@link failed} wants to know; else why not. */
  ask(keyId: string, id: string): { readonly count: number } | { readonly failure: PublishFailure } {
    const away = this.away.get(keyId);
    if (away === undefined) return { count: this.counts.get(keyId) ?? 0 };
    const now = this.clock.monotonic();
    if (away.asking || now < away.askAt || now < mayAskAgainAt(away, id)) return { failure: away.failure };
    away.asking = true;
    return { count: this.counts.get(keyId) ?? 0 };
  }

  opened(keyId: string, id: string): void {
    keep(this.counts, keyId, (this.counts.get(keyId) ?? 0) + 1);
    if (this.strikes.size > 0) this.strikes.delete(id);
    if (this.away.size > 0) this.away.delete(keyId);
  }

  /** @returns whose failure it is */
  failed(keyId: string, id: string, asked: { readonly count: number }, failure: PublishFailure): 'key' | 'message' {
    const count = this.counts.get(keyId) ?? 0;
    const known = this.strikes.get(id);
    const othersGotThrough = count > (known?.count ?? asked.count);
    const strikes = (known?.strikes ?? 0) + Number(othersGotThrough);
    keep(this.strikes, id, { strikes, count });
    if (!othersGotThrough) {
      const now = this.clock.monotonic();
      const asked = this.away.get(keyId)?.asked ?? new Map<string, number>();
      keep(asked, id, now);
      keep(this.away, keyId, { failure, askAt: now + ASK_EVERY, asking: false, asked });
    } else this.answered(keyId);
    return strikes >= STRIKES && othersGotThrough ? 'message' : 'key';
  }

  /** It failed for a reason of its own, which says nothing of the key. */
  answered(keyId: string): void {
    const away = this.away.get(keyId);
    if (away !== undefined) away.asking = false;
  }
}

interface Away {
  /** Monotonic milliseconds. */
  readonly askAt: number;
  readonly failure: PublishFailure;
  asking: boolean;
  /** When each message asked last, by its id. */
  readonly asked: Map<string, number>;
}
/** Times that a message failed while others of its key got through, and how many had when it failed last. */
interface Strikes {
  readonly strikes: number;
  readonly count: number;
}

const STRIKES = 3;
/** Milliseconds between two questions to a key that is away. */
const ASK_EVERY = 200;
/** Milliseconds for which one that asked leaves the turn to others, and for each that asked so much more: its own turn comes each second. */
const AGAIN = 1_000;
const MOST_AGAIN = 60_000;
/** Of each map. Keys may be as many as persons. */
const MOST = 1_000;

function mayAskAgainAt({ asked }: Away, id: string): number {
  const last = asked.get(id);
  return last === undefined ? -Infinity : last + Math.min(MOST_AGAIN, AGAIN * (asked.size + 0.5));
}

/** The oldest is forgotten for it: it costs a question more. */
function keep<T>(map: Map<string, T>, name: string, value: T): void {
  if (map.size >= MOST && !map.has(name)) map.delete(map.keys().next().value as string);
  map.set(name, value);
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
