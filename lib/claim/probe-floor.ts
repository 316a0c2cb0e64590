import type { ReadRange } from '../store/ready-store.js';
import { ranges, type Floor, type Heads } from './floor.js';

/**
 * The floor where a read proves nothing about open transactions (MySQL, MariaDB): everything above it is swept with
 * every fetch, keys only. It is raised to an earlier head when two things hold: the head is older than any statement that
 * took its auto-increment number but had not inserted yet, and a dirty read of the range found no uncommitted insert in
 * it. Time alone breaks order.
 */
export class ProbeFloor implements Floor {
  readonly floors = new Map<number, string>();
  /** Heads that wait to become old enough. */
  candidate: { heads: Map<number, string>; since: number } | undefined;

  /** @param age milliseconds after which no statement can hold a number that it has not inserted yet */
  constructor(
    readonly now: () => number,
    readonly age = 2_000,
  ) {}

  toSweep(_snapshot: undefined, heads: Heads): ReadRange[] {
    return ranges((bucket) => this.floors.get(bucket) ?? '0', heads);
  }

  passed(_snapshot: undefined, heads: Heads): void {
    this.candidate ??= { heads: new Map(heads), since: this.now() };
  }

  /** What to probe now; `undefined`: nothing is old enough. */
  toProbe(): ReadRange[] | undefined {
    if (this.candidate === undefined || this.now() - this.candidate.since < this.age) return undefined;
    return ranges((bucket) => this.floors.get(bucket) ?? '0', this.candidate.heads).filter(({ bucket }) =>
      this.floors.has(bucket),
    );
  }

  /** The ranges were probed, and after that swept: those without an uncommitted insert become floor. */
  probed(tested: readonly ReadRange[], clean: readonly boolean[]): void {
    tested.forEach(({ bucket, upTo }, i) => {
      if (clean[i] === true && this.floors.has(bucket)) this.floors.set(bucket, upTo);
    });
    this.candidate = undefined;
  }

  wrote(): void {}

  add(bucket: number): void {
    this.floors.set(bucket, '0');
  }

  forget(bucket: number): void {
    this.floors.delete(bucket);
    this.candidate?.heads.delete(bucket);
  }

  restart(points: Heads): void {
    this.floors.clear();
    for (const [bucket, seq] of points) this.floors.set(bucket, seq);
    this.candidate = undefined;
  }

  floorOf(bucket: number): string {
    return this.floors.get(bucket) ?? '0';
  }
}
