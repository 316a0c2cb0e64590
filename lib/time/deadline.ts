import type { Clock } from './clock.js';

/** How long a stop waits for others: until a time, or until somebody says that it is over. */
export class Deadline {
  at: number;
  private readonly waiting = new Set<() => void>();

  constructor(
    private readonly clock: Clock,
    ms: number,
  ) {
    this.at = clock.monotonic() + ms;
  }

  /** It is over now. */
  end(): void {
    this.at = Math.min(this.at, this.clock.monotonic());
    for (const stop of [...this.waiting]) stop();
  }

  /**
   * @param grace milliseconds more, also after {@link end}
   * @returns whether the work ended in time; its error is not thrown
   */
  within(work: Promise<unknown>, grace = 0): Promise<boolean> {
    return new Promise((resolve) => {
      let cancel = (): void => {};
      const finish = (inTime: boolean): void => {
        cancel();
        this.waiting.delete(over);
        resolve(inTime);
      };
      const arm = (): void => {
        cancel();
        cancel = this.clock.after(this.at + grace - this.clock.monotonic(), () => finish(false));
      };
      const over = (): void => (grace === 0 ? finish(false) : arm());
      this.waiting.add(over);
      arm();
      work.then(
        () => finish(true),
        () => finish(true),
      );
    });
  }
}
