import type { OutboxStats } from '../observe/stats.js';
import { within, type Clock } from '../time/clock.js';

/** Milliseconds for which counts are shown while newer ones fail: for as long Prometheus looks back for a value. */
const STALE_AFTER = 300_000;

export interface CountSettings {
  /** Milliseconds between two questions, at least. */
  readonly every: number;
  /** Milliseconds for which a scrape waits for an answer. */
  readonly timeout: number;
}

/** The counts of `stats()`, which cost the database something: asked now and then, however many scrapes there are. */
export class Counts {
  failures = 0;
  /** @internal */ found: { readonly stats: OutboxStats; readonly at: number } | undefined;
  /** @internal */ askedAt = -Infinity;
  /** @internal */ underWay: Promise<void> | undefined;

  constructor(
    /** @internal */ readonly stats: () => Promise<OutboxStats>,
    /** @internal */ readonly clock: Clock,
    /** @internal */ readonly settings: CountSettings,
  ) {}

  /** The last counts, and their age in milliseconds; `undefined`: there are none, or they are too old. Never rejects. */
  async read(): Promise<{ readonly stats: OutboxStats; readonly age: number } | undefined> {
    const { clock, settings } = this;
    if (this.underWay === undefined && clock.monotonic() - this.askedAt >= settings.every) this.ask();
    const left = this.askedAt + settings.timeout - clock.monotonic();
    if (this.underWay !== undefined && left > 0) await within(clock, left, this.underWay);
    if (this.found === undefined) return undefined;
    const age = clock.monotonic() - this.found.at;
    return age > STALE_AFTER ? undefined : { stats: this.found.stats, age };
  }

  /** @internal */ ask(): void {
    this.askedAt = this.clock.monotonic();
    const at = this.askedAt;
    this.underWay = this.stats()
      .then(
        (stats) => void (this.found = { stats, at }),
        () => void this.failures++,
      )
      .finally(() => (this.underWay = undefined));
  }
}
