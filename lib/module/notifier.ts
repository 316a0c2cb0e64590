/**
 * Wakes the relays of other processes after a commit, off the caller's path: at most one notification is outstanding,
 * however many commits ask meanwhile; the next one covers them all. A failure costs a poll interval, nothing else.
 */
export class Notifier {
  /** @internal */ sending = false;
  /** @internal */ again = false;

  constructor(
    /** @internal */ readonly send: (() => Promise<void>) | undefined,
    /** @internal */ readonly onError: (error: unknown) => void,
  ) {}

  /** Synchronous, never throws. */
  notify(): void {
    if (this.send === undefined) return;
    if (this.sending) this.again = true;
    else void this.run(this.send);
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
        this.onError(error);
      }
    } while (this.again);
    this.sending = false;
  }
}
