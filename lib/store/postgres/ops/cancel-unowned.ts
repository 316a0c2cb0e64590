import type { SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import type { Statement } from '../../sql.js';
import { plainArray } from '../arrays.js';
import type { PostgresDedupKeys } from '../ready/dedup-keys.js';
import { statement } from '../statement.js';

/**
 * Deletes ready messages of buckets that nobody leases. Only the owner of a bucket publishes from it, and not past the end of
 * its lease: while the lease row is locked nobody can begin to send what is deleted.
 */
export class PostgresUnowned {
  /** @internal */ readonly hold: Statement;
  /** @internal */ readonly remove: Statement;

  constructor(
    { leases, ready }: TableNames,
    /** @internal */ readonly keys: PostgresDedupKeys,
  ) {
    this.hold = statement(
      undefined,
      `select l.transport, l.bucket from ${leases} l where (l.transport, l.bucket) in
         (select * from unnest(?::smallint[], ?::smallint[])) and ${UNOWNED} order by l.transport, l.bucket for share`,
    );
    this.remove = statement(
      undefined,
      `delete from ${ready} where ctid = any(array(select x.ctid
         from unnest(?::smallint[], ?::smallint[], ?::bigint[]) k(t, b, s)
         cross join lateral (select o.ctid from ${ready} o
           where o.transport = k.t and o.bucket = k.b and o.seq = k.s for update skip locked) x)) returning id, transport, bucket`,
    );
  }

  /** Rows: transport, bucket, seq. @returns the id of each that was deleted */
  async removeIn(tx: SqlExecutor, found: readonly (readonly unknown[])[]): Promise<string[]> {
    const place = (row: readonly unknown[]): string => `${String(row[0])} ${String(row[1])}`;
    const places = [...new Map(found.map((row) => [place(row), row])).values()];
    const column = (rows: readonly (readonly unknown[])[], index: number): string =>
      plainArray(rows.map((row) => row[index] as string));
    const held = new Set((await tx.run(this.hold.bind(column(places, 0), column(places, 1)))).rows.map(place));
    const ours = found.filter((row) => held.has(place(row)));
    if (ours.length === 0) return [];
    const { rows } = await tx.run(this.remove.bind(column(ours, 0), column(ours, 1), column(ours, 2)));
    const ids = rows.map(([id]) => id as string);
    await this.keys.free(tx, ids);
    return ids;
  }
}

const UNOWNED = '(l.owner is null or l.expires_at <= clock_timestamp())';
