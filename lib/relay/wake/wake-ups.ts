import type { Loop } from '../../time/loop.js';

type Wakeable = Pick<Loop, 'within'>;

/**
 * Wakes the loops of one relay. Whoever makes work says so here, and knows of no loop. Before there are loops, and while they
 * stand still, nobody is woken.
 */
export class WakeUps {
  private readLoop: Wakeable | undefined;
  private parkedLoop: Wakeable | undefined;

  /** From now on these are woken: the loop that reads what is ready, and the one that takes what is parked. They may be one. */
  wake(readLoop: Wakeable, parkedLoop: Wakeable): void {
    this.readLoop = readLoop;
    this.parkedLoop = parkedLoop;
  }

  /** There is something to read. */
  ready(): void {
    this.readLoop?.within(0);
  }

  /** Something that is parked is due. @param ms in so many milliseconds, at the latest */
  parked(ms = 0): void {
    this.parkedLoop?.within(ms);
  }
}
