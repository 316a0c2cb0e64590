import type { Sighting } from './relay.js';

/** Whether a message is one of the 256th part whose way is timed: both ends decide it by the id alone. */
export const isSampled = (id: string): boolean => id.endsWith('00');

/** Nanoseconds would not survive JSON; the machine's monotonic clock in milliseconds, which all its processes share. */
export const now = (): number => Number(process.hrtime.bigint()) / 1e6;

/** Joins commits and confirms, which may come in either order. */
export class Latencies {
  /** @internal */ readonly commits = new Map<string, number>();
  /** @internal */ readonly confirms = new Map<string, number>();
  /** @internal */ values: number[] = [];

  committed(sampled: readonly Sighting[]): void {
    for (const [id, at] of sampled) this.join(this.commits, this.confirms, id, at, (confirmed) => confirmed - at);
  }

  saw(sightings: readonly Sighting[]): void {
    for (const [id, at] of sightings) this.join(this.confirms, this.commits, id, at, (committed) => at - committed);
  }

  /** What was measured since the last call, in milliseconds. */
  take(): number[] {
    const taken = this.values;
    this.values = [];
    return taken;
  }

  /** @internal */
  join(
    mine: Map<string, number>,
    others: Map<string, number>,
    id: string,
    at: number,
    latency: (other: number) => number,
  ): void {
    const other = others.get(id);
    if (other === undefined) mine.set(id, at);
    else {
      others.delete(id);
      this.values.push(latency(other));
    }
  }
}
