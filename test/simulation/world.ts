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
  /** Until then something may arrive that nobody waits for: a request that was given up, a start, an operator. */
  owedUntil = 0;
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

  /** What no process waits for: a history is not over before it. */
  owe(ms: number, run: () => void): void {
    this.owedUntil = Math.max(this.owedUntil, this.now + ms);
    this.in(ms, run);
  }

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.in(ms, resolve));
  }

  /** Lets time pass until `until`, or until `enough`, asked every 50 ms of it, says so. */
  run(until: number, enough: () => boolean = () => false): Promise<void> {
    let askAt = this.now;
    const isOver = (): boolean => {
      if (this.now < askAt) return false;
      askAt = this.now + 50;
      return enough();
    };
    return new Promise((resolve, reject) => {
      let over = false;
      const one = (): void => {
        if (over) return;
        try {
          over = isOver() || !this.step(until);
          if (over) resolve();
        } catch (error) {
          over = true;
          reject(error as Error);
        }
      };
      // Node runs every promise chain to its end between two immediates; many of them planned together cost a quarter.
      const some = (): void => {
        if (over) return;
        for (let n = 0; n < TOGETHER; n += 1) setImmediate(one);
        setImmediate(some);
      };
      some();
    });
  }

  /** @internal Lets the next thing happen. @returns whether there was one until then */
  step(until: number): boolean {
    for (;;) {
      const next = this.queue[0];
      if (next === undefined || next.at > until) {
        this.now = Math.max(this.now, until);
        return false;
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
      return true;
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

const TOGETHER = 128;
