import { systemClock } from '../../time/clock.js';

/** Closes a connection that nobody has asked anything for a while; the next question opens another. */
export class IdleClose {
  /** Questions that are not answered yet. */
  private pending = 0;
  cancel: () => void = () => undefined;

  /** @param after milliseconds; `undefined`: never */
  constructor(
    readonly after: number | undefined,
    readonly close: () => void,
  ) {}

  async during<T>(work: Promise<T>): Promise<T> {
    this.pending += 1;
    this.cancel();
    try {
      return await work;
    } finally {
      this.pending -= 1;
      if (this.pending === 0 && this.after !== undefined) this.cancel = systemClock.after(this.after, this.close);
    }
  }
}
