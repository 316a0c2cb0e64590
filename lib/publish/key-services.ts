import type { Clock } from '../dispatch/clock.js';
import type { PublishFailure } from './transport.js';

/**
 * What is known of the keys of encrypted payloads. A `decrypt` that fails says little of the message, as whoever keeps the key
 * may be away: that is an outage of this key, in which one message at a time asks whether it is back. A message that fails
 * three times, each time while others of its key get through, is at fault itself.
 */
export class KeyServices {
  /** @internal */ readonly away = new Map<string, Away>();
  /** Payloads that were opened, by key. @internal */
  readonly counts = new Map<string, number>();
  /** By the id of the message. @internal */
  readonly strikes = new Map<string, Strikes>();

  constructor(readonly clock: Pick<Clock, 'monotonic'>) {}

  /** Whether `decrypt` may be asked, and what {@link failed} wants to know; else why not. */
  ask(keyId: string): { readonly count: number } | { readonly failure: PublishFailure } {
    const away = this.away.get(keyId);
    if (away === undefined) return { count: this.counts.get(keyId) ?? 0 };
    if (away.asking || this.clock.monotonic() < away.askAt) return { failure: away.failure };
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
      keep(this.away, keyId, { failure, askAt: this.clock.monotonic() + ASK_EVERY, asking: false });
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
}
/** Times that a message failed while others of its key got through, and how many had when it failed last. */
interface Strikes {
  readonly strikes: number;
  readonly count: number;
}

const STRIKES = 3;
/** Milliseconds between two questions to a key that is away. */
const ASK_EVERY = 200;
/** Of each map. Keys may be as many as persons. */
const MOST = 1_000;

/** The oldest is forgotten for it: it costs a question more. */
function keep<T>(map: Map<string, T>, name: string, value: T): void {
  if (map.size >= MOST && !map.has(name)) map.delete(map.keys().next().value as string);
  map.set(name, value);
}
