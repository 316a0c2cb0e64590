import { bucketOf } from '../../message/bucket-of.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { nameOfPause, type Pause } from '../../store/pauses/pause-store.js';
import type { Pauses } from './pauses.js';

/** A pause of a topic or a key, for which this relay put messages off. */
export interface Hold {
  readonly pause: Pause;
  /** A pause is no failure. */
  readonly error: null;
  /** Of the messages. */
  readonly buckets: Set<number>;
  /** It was resumed. */
  isOver: boolean;
}

/**
 * Messages whose topic or key is paused while their transport goes on: they are put off without a try, and their keys wait
 * behind them. What was put off for a pause falls due when it is over.
 */
export class HeldBack {
  private readonly held = new Map<string, Hold>();

  constructor(
    readonly transport: number,
    readonly pauses: Pauses,
    /** How many there are. */
    readonly buckets: number,
  ) {}

  get isOn(): boolean {
    return this.pauses.hasParts(this.transport);
  }

  /** For what it is to be put off, if for anything. */
  of(message: OutboxMessage): Hold | undefined {
    const pause = this.pauses.partOf(this.transport, message);
    if (pause === undefined) return undefined;
    const name = nameOfPause(pause);
    const known = this.held.get(name);
    if (known !== undefined) return known;
    const hold: Hold = { pause, error: null, buckets: new Set(), isOver: false };
    this.held.set(name, hold);
    return hold;
  }

  /**
   * These are over.
   * @param others buckets of what was put off for them, if they were over before
   * @returns where what was put off is looked for: by topic, or by bucket
   */
  ended(pauses: readonly Pause[], others: Iterable<number> = []) {
    const [topics, buckets] = [new Set<string>(), new Set(others)];
    for (const pause of pauses) {
      const hold = this.held.get(nameOfPause(pause));
      if (hold !== undefined) hold.isOver = true;
      this.held.delete(nameOfPause(pause));
      if (pause.key === null) topics.add(pause.topic as string);
      // A process that is gone may have put off more of the key, in the key's own bucket.
      else for (const bucket of [...(hold?.buckets ?? []), bucketOf(pause.key, this.buckets)]) buckets.add(bucket);
    }
    return { topics, buckets };
  }
}
