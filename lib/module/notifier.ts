import type { Clock } from '../dispatch/clock.js';

/** Milliseconds for which a close waits for the notification that is on its way. */
const CLOSE_TIMEOUT = 1_000;

/**
 * Wakes the relays of other processes after a commit, off the caller's path: at most one notification is outstanding,
 * however many commits ask meanwhile; the next one covers them all. A failure costs a poll interval, nothing else.
 */
export class Notifier {
  /** @internal */ sending = false;
  /** @internal */ outstanding: Promise<void> = Promise.resolve();
  /** @internal */ again = false;
  /** @internal */ closing = false;

  constructor(
    /** @internal */ readonly send: (() => Promise<void>) | undefined,
    /** @internal */ readonly onError: (error: unknown) => void,
    /** @internal */ readonly clock: Pick<Clock, 'after'>,
  ) {}

  /** Synchronous, never throws. */
  notify(): void {
    if (this.send === undefined || this.closing) return;
    if (this.sending) this.again = true;
    else this.outstanding = this.run(this.send);
  }

  /**
   * Waits for what is outstanding, but not for long: an application that enqueues and ends at once should not make its
   * message wait for a poll. What fails from here on would have to be told to nobody who could do anything about it.
   */
  async close(): Promise<void> {
    this.closing = true;
    let cancel = (): void => {};
    const deadline = new Promise<void>((resolve) => {
      cancel = this.clock.after(CLOSE_TIMEOUT, resolve);
    });
    await Promise.race([this.outstanding, deadline]).finally(cancel);
  }

  /** @internal */
  async run(send: () => Promise<void>): Promise<void> {
    this.sending = true;
    do {
      this.again = false;
      try {
        await send();
      } catch (error) {
        this.again = false;
        if (!this.closing) this.onError(error);
      }
    } while (this.again);
    this.sending = false;
  }
}
