interface Life {
  readonly run: number;
  readonly from: number;
  readyAt: number;
  /** When it ended by itself; who was ended by a fault lives, for this list, until its successor starts. */
  endedAt: number;
}

/** Which relay lived when; microseconds. */
export class Lives {
  private readonly bySlot = new Map<number, Life[]>();
  private readonly byRun = new Map<number, Life>();

  start(run: number, slot: number, from: number): void {
    const life = { run, from, readyAt: Infinity, endedAt: Infinity };
    const list = this.bySlot.get(slot);
    if (list === undefined) this.bySlot.set(slot, [life]);
    else list.push(life);
    this.byRun.set(run, life);
  }

  ready(run: number, time: number): void {
    const life = this.byRun.get(run);
    if (life !== undefined) life.readyAt = time;
  }

  ended(run: number, time: number): void {
    const life = this.byRun.get(run);
    if (life !== undefined) life.endedAt = time;
  }

  /** Those that were up then, at most one for each place. */
  upAt(time: number): number[] {
    return [...this.bySlot.values()].flatMap((list) => {
      const life = list.findLast(({ from }) => from <= time);
      return life !== undefined && life.readyAt <= time && life.endedAt > time ? [life.run] : [];
    });
  }

  /** When the last one before that time was up. */
  lastReadyBefore(time: number): number {
    let last = 0;
    for (const { readyAt } of this.byRun.values()) if (readyAt <= time) last = Math.max(last, readyAt);
    return last;
  }
}
