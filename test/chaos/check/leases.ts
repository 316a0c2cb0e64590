interface Change {
  readonly at: number;
  readonly owner: string | null;
}
/** Microseconds by which the database's clock and ours may differ. */
const TOLERANCE = 10_000;

/** Who owned which bucket, as the database logged it. */
export class LeaseLog {
  private readonly changes = new Map<string, Change[]>();
  private readonly owners = new Map<number, string>();

  change(at: number, transport: number, bucket: number, owner: string | null): void {
    const place = `${transport}/${bucket}`;
    let list = this.changes.get(place);
    if (list === undefined) this.changes.set(place, (list = []));
    list.push({ at, owner });
  }

  name(run: number, owner: string): void {
    this.owners.set(run, owner);
  }

  knows(run: number): boolean {
    return this.owners.has(run);
  }

  /** Whether the bucket was the relay's at that time. */
  owns(run: number, transport: number, bucket: number, time: number): boolean {
    const owner = this.owners.get(run);
    const list = this.changes.get(`${transport}/${bucket}`) ?? [];
    const first = indexAfter(list, time - TOLERANCE);
    // It may have been ours a moment ago, or be ours a moment later: the clocks are not that exact.
    return list.slice(Math.max(0, first - 1), indexAfter(list, time + TOLERANCE)).some((each) => each.owner === owner);
  }

  /** For each bucket that the relay had when it died: how long until another one had it; Infinity when none ever had. */
  takeovers(run: number, died: number): number[] {
    const owner = this.owners.get(run);
    if (owner === undefined) return [];
    const times: number[] = [];
    for (const list of this.changes.values()) {
      const after = indexAfter(list, died);
      if (list[after - 1]?.owner !== owner) continue;
      const next = list.slice(after).find((change) => change.owner !== null && change.owner !== owner);
      times.push(next === undefined ? Infinity : next.at - died);
    }
    return times;
  }

  /** Whether the relay has one of the transport's buckets, the same from the one time to the other. */
  holds(run: number, transport: number, from: number, to: number): boolean {
    const owner = this.owners.get(run);
    if (owner === undefined) return false;
    return [...this.changes].some(([place, list]) => {
      const after = indexAfter(list, from);
      return place.startsWith(`${transport}/`) && list[after - 1]?.owner === owner && indexAfter(list, to) === after;
    });
  }

  /** Buckets that none of these relays had at any time between the two. */
  unowned(runs: readonly number[], from: number, to: number): string[] {
    const owners = new Set(runs.map((run) => this.owners.get(run)));
    const had = (list: readonly Change[]): boolean =>
      list
        .slice(Math.max(0, indexAfter(list, from) - 1), indexAfter(list, to))
        .some(({ owner }) => owner !== null && owners.has(owner));
    return [...this.changes].filter(([, list]) => !had(list)).map(([place]) => place);
  }
}

function indexAfter(list: readonly Change[], time: number): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((list[middle] as Change).at <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}
