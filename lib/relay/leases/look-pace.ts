import type { Clock } from '../../time/clock.js';

/** How often an instance looks at the others and at what is free. */
export class LookPace {
  /** Since when this instance wants more than it has. */
  private hungrySince: number | undefined;

  constructor(
    readonly clock: Clock,
    /** Milliseconds: the usual pause. */
    readonly usual: number,
    /** Milliseconds for which an instance counts as alive. */
    readonly alive: number,
    /** Whether what others change is told here; else it is found by looking. */
    readonly hears: () => boolean,
  ) {}

  set isHungry(isHungry: boolean) {
    this.hungrySince = isHungry ? (this.hungrySince ?? this.clock.monotonic()) : undefined;
  }

  /**
   * Milliseconds between two looks. What is wanted is mostly about to be freed: the first looks follow fast.
   * @param hasLeases there is something to lease
   */
  every(hasLeases: boolean, hasPeers: boolean): number {
    const { usual: every } = this;
    const hungryFor = this.hungrySince === undefined ? Infinity : this.clock.monotonic() - this.hungrySince;
    if (hungryFor < every * FAST_FOR) return every / FAST;
    if (hasLeases && !this.hears()) return every / 2;
    return this.hungrySince !== undefined || hasPeers ? every : this.alive / 3;
  }
}

/** Times that a look is had in one of the usual pauses, and in how many of these. */
const FAST = 8;
const FAST_FOR = 2;
