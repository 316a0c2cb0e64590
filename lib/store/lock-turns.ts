/** Where a look for rows to lock begins, so that a limit does not always favour the same ones. */
export interface LockTurn {
  /** All of them, in the order in which they are asked. */
  readonly buckets: readonly number[];
  readonly tables: readonly ('due' | 'ready')[];
}

/** Of each transport its own: two that take turns with one store would meet the same turn each time. */
export class LockTurns {
  readonly last = new Map<number, number>();

  constructor(
    readonly buckets: number,
    readonly first = 0,
  ) {}

  next(transport: number): LockTurn {
    const turn = (this.last.get(transport) ?? this.first * 2 - 1) + 1;
    this.last.set(transport, turn);
    const start = Math.floor(turn / 2); // both tables at each bucket
    const buckets = Array.from({ length: this.buckets }, (_, i) => (start + i) % this.buckets);
    return { buckets, tables: turn % 2 === 0 ? ['due', 'ready'] : ['ready', 'due'] };
  }
}
