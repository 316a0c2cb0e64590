import { within, type Clock } from '../time/clock.js';

/** Milliseconds for which an answer is shown when a newer one is due and fails: for as long Prometheus looks back for a value. */
const STALE_AFTER = 300_000;

export interface PollSettings {
  /** Milliseconds between two questions, at least. */
  readonly every: number;
  /** Milliseconds for which a scrape waits for an answer. */
  readonly timeout: number;
}

/** What costs the database something: asked now and then, however many scrapes there are. */
export class Polled<T> {
  failures = 0;
  private found: { readonly answer: T; readonly at: number } | undefined;
  private askedAt = -Infinity;
  private underWay: Promise<void> | undefined;

  constructor(
    private readonly question: () => Promise<T>,
    private readonly clock: Clock,
    private readonly settings: PollSettings,
  ) {}

  /** The last answer, and its age in milliseconds; `undefined`: there is none, or it is too old. Never rejects. */
  async read(): Promise<{ readonly answer: T; readonly age: number } | undefined> {
    const { clock, settings } = this;
    if (this.underWay === undefined && clock.monotonic() - this.askedAt >= settings.every) this.ask();
    const left = this.askedAt + settings.timeout - clock.monotonic();
    if (this.underWay !== undefined && left > 0) await within(clock, left, this.underWay);
    if (this.found === undefined) return undefined;
    const age = clock.monotonic() - this.found.at;
    return age > settings.every + STALE_AFTER ? undefined : { answer: this.found.answer, age };
  }

  private ask(): void {
    this.askedAt = this.clock.monotonic();
    const at = this.askedAt;
    this.underWay = this.question()
      .then(
        (answer) => void (this.found = { answer, at }),
        () => void this.failures++,
      )
      .finally(() => (this.underWay = undefined));
  }
}
