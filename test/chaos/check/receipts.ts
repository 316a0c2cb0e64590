/** When relays had written down what they published; microseconds. */
export class Receipts {
  private readonly told = new Map<string, (readonly [at: number, before: number])[]>();

  written(run: number, transport: number, at: number, before: number): void {
    const place = `${run}/${transport}`;
    this.told.set(place, this.told.get(place) ?? []);
    this.told.get(place)?.push([at, before]);
  }

  /** By when it had the receipt of what the broker had at that time. Infinity: it did not live to tell; 0: it tells nothing at all. */
  by(run: number, transport: number, time: number): number {
    const list = this.told.get(`${run}/${transport}`);
    return list === undefined ? 0 : (list.find(([, before]) => before > time)?.[0] ?? Infinity);
  }
}
