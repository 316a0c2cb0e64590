import type { DatabaseServer } from './servers/database.js';

/** The first ready row of each bucket, by an index. */
const FIRST = `select transport, bucket, (select min(seq) from outbox_ready ready
  where ready.transport = leases.transport and ready.bucket = leases.bucket) from outbox_leases leases`;

/** Transport, bucket, and since when its first row is the same: microseconds. */
export type Stand = readonly [transport: number, bucket: number, since: number];

/** Ready rows that do not get ahead, as anybody can see who looks at the table now and then. */
export class StandingRows {
  private readonly first = new Map<string, { readonly seq: string; readonly since: number }>();

  constructor(private readonly database: Pick<DatabaseServer, 'query'>) {}

  /** @returns those that have stood for so many microseconds */
  async look(now: number, longest: number): Promise<Stand[]> {
    const stands: Stand[] = [];
    for (const [transport, bucket, seq] of await this.database.query(FIRST)) {
      const place = `${transport}/${bucket}`;
      const before = this.first.get(place);
      if (seq === null || seq === undefined) this.first.delete(place);
      else if (before?.seq !== seq) this.first.set(place, { seq, since: now });
      else if (now - before.since >= longest) stands.push([Number(transport), Number(bucket), before.since]);
    }
    return stands;
  }
}
