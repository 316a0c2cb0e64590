import { inCleanScope } from '../../time/async-scope.js';
import { within, type Clock } from '../../time/clock.js';
import type { WakeUp } from '../../store/outbox-store.js';
import { untraced } from '../../time/untraced.js';

/** Milliseconds between two notifications: 200 a second cost 8 writers nothing, one for each commit cost them a tenth. */
const PAUSE = 5;
/** Milliseconds for which a close waits for the notification that is on its way. */
const CLOSE_TIMEOUT = 1_000;

/**
 * Wakes the relays of other processes after a commit, off the caller's path: the first commit at once, then one
 * notification at a time with a pause between, however many commits ask meanwhile; the next one of its kind covers them all. A failure costs a poll interval, nothing else.
 */
export class Notifier {
  private sending = false;
  private outstanding: Promise<void> = Promise.resolve();
  private readonly wanted = new Set<WakeUp>();
  private closing = false;
  /** Ends the pause that is under way. */
  private endPause: (() => void) | undefined;

  constructor(
    private readonly send: ((where: WakeUp) => Promise<void>) | undefined,
    private readonly onError: (error: unknown) => void,
    private readonly clock: Pick<Clock, 'after'>,
  ) {}

  /** Synchronous, never throws. */
  notify(where: WakeUp = 'ready'): void {
    if (this.send === undefined || this.closing) return;
    this.wanted.add(where);
    const { send } = this;
    if (!this.sending) this.outstanding = inCleanScope(() => this.run(send));
  }

  /**
   * Waits for what is outstanding, but not for long: an application that enqueues and ends at once should not make its
   * message wait for a poll. What fails from here on would have to be told to nobody who could do anything about it.
   */
  async close(): Promise<void> {
    this.closing = true;
    this.endPause?.();
    await within(this.clock, CLOSE_TIMEOUT, this.outstanding);
  }

  private async run(send: (where: WakeUp) => Promise<void>): Promise<void> {
    this.sending = true;
    for (const where of this.wanted) {
      this.wanted.delete(where); // one that is wanted again comes to the end, and the loop to it
      try {
        await (where === 'leases' ? untraced(() => send(where)) : send(where)); // nobody's request asked for that one
      } catch (error) {
        this.wanted.clear();
        if (!this.closing) this.onError(error);
      }
      if (!this.closing) await this.pause();
    }
    this.sending = false;
  }

  /** Until its time is over, or the close, which waits for no timer. */
  private pause(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.clock.after(PAUSE, resolve);
      this.endPause = () => (cancel(), resolve());
    });
  }
}
