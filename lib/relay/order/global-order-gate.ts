import type { WakeUps } from '../wake/wake-ups.js';

/** In a global order everything waits while one message is blocked. */
export class GlobalOrderGate {
  on = false;
  private holds = 0;

  constructor(
    /** Whether the store has a row that blocks, or is due. */
    readonly ask: (buckets: readonly number[]) => Promise<boolean>,
    /** Nothing is on its way that the store does not know of yet. */
    readonly settled: () => boolean,
    readonly wakeUps: WakeUps,
  ) {}

  /** Everything waits until the store says that nothing blocks. */
  hold(): void {
    this.on = true;
    this.holds += 1;
  }

  /** Looks whether it is over. */
  async look(buckets: readonly number[]): Promise<void> {
    if (!this.on || buckets.length === 0 || !this.settled()) return; // no bucket proves nothing
    const { holds } = this;
    const blocking = await this.ask(buckets);
    if (blocking || holds !== this.holds) return; // or another one was blocked while we asked
    this.on = false;
    this.wakeUps.ready();
  }
}
