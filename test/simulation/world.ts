/** Numbers that look random and are the same for the same seed (mulberry32). */
export class Random {
  constructor(private state: number) {}

  /** 0 ≤ x < 1. */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  }
  chance(probability: number): boolean {
    return this.next() < probability;
  }
  between(low: number, high: number): number {
    return low + this.next() * (high - low);
  }
  whole(low: number, high: number): number {
    return Math.floor(this.between(low, high + 1));
  }
  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)] as T;
  }
}

/** Whose timers and answers these are: nothing happens to the dead, and to the frozen only once they go on. */
export interface Life {
  readonly dead: boolean;
  readonly frozenUntil: number;
}
const ETERNAL: Life = { dead: false, frozenUntil: 0 };

interface Happening {
  at: number;
  readonly order: number;
  readonly life: Life;
  readonly run: () => void;
  cancelled: boolean;
}

/** Virtual time, and one queue of everything that will happen in it. Two happenings never overlap. */
export class World {
  now = 0;
  happened = 0;
  /** @internal A binary heap by time, then by the order in which they were planned. */
  readonly queue: Happening[] = [];
  /** @internal */ planned = 0;

  /** @returns how to cancel it */
  in(ms: number, run: () => void, life: Life = ETERNAL): () => void {
    const happening = { at: this.now + Math.max(0, ms), order: this.planned++, life, run, cancelled: false };
    this.push(happening);
    return () => {
      happening.cancelled = true;
    };
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.in(ms, resolve));
  }

  /** Lets time pass until `until`, or until `enough` says so. */
  async run(until: number, enough: () => boolean = () => false): Promise<void> {
    while (!enough()) {
      const next = this.queue[0];
      if (next === undefined || next.at > until) {
        this.now = Math.max(this.now, until);
        return;
      }
      this.pop();
      if (next.cancelled || next.life.dead) continue;
      this.now = Math.max(this.now, next.at);
      if (next.life.frozenUntil > this.now) {
        next.at = next.life.frozenUntil;
        this.push(next);
        continue;
      }
      this.happened += 1;
      next.run();
      await settled();
    }
  }

  /** @internal */ push(happening: Happening): void {
    const { queue } = this;
    let at = queue.push(happening) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!earlier(happening, queue[parent] as Happening)) break;
      queue[at] = queue[parent] as Happening;
      at = parent;
    }
    queue[at] = happening;
  }

  /** @internal */ pop(): void {
    const { queue } = this;
    const last = queue.pop() as Happening;
    if (queue.length === 0) return;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= queue.length) break;
      if (child + 1 < queue.length && earlier(queue[child + 1] as Happening, queue[child] as Happening)) child += 1;
      if (!earlier(queue[child] as Happening, last)) break;
      queue[at] = queue[child] as Happening;
      at = child;
    }
    queue[at] = last;
  }
}

function earlier(a: Happening, b: Happening): boolean {
  return a.at < b.at || (a.at === b.at && a.order < b.order);
}

/** Every promise chain that needs nothing from outside has run to its end. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
