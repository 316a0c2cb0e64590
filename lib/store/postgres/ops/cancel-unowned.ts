import { systemClock } from '../../../time/clock.js';
import type { MessageFilter } from '../../admin-store.js';
import type { Deleted } from '../../elsewhere.js';
import type { SqlConnection, SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { statement, type Sql, type Statement } from '../../sql.js';
import { conditions, type PostgresTooLate } from './admin-too-late.js';
import { plainArray } from '../arrays.js';
import type { PostgresDedupKeys } from '../ready/dedup-keys.js';
import { inTransaction } from '../retry.js';

/** Milliseconds to look for them. */
const SEARCH_TIMEOUT = 2_000;
/** Rows of a transaction: a new owner waits for its bucket meanwhile. */
const PER_TRANSACTION = 500;

/**
 * Deletes ready messages of buckets that nobody leases, or whose owner says that it publishes nothing of them. Only the owner of
 * a bucket publishes from it, not past the end of its lease, and not before it says otherwise: while the lease row is locked
 * nobody can begin to send what is deleted.
 */
export class PostgresUnowned {
  /** @internal */ readonly hold: Statement;
  /** @internal */ readonly remove: Statement;

  constructor(
    readonly connection: () => SqlConnection,
    readonly names: TableNames,
    readonly parts: { search: PostgresTooLate; keys: PostgresDedupKeys },
  ) {
    const { leases, ready } = names;
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

  /** @param room the most rows to delete */
  async cancel(filter: MessageFilter, ids: readonly string[] | undefined, room: number): Promise<Deleted[]> {
    if (room <= 0) return [];
    const deadline = systemClock.monotonic() + SEARCH_TIMEOUT;
    const { search } = this.parts;
    const bucket = await search.bucketOf(filter.key);
    const found = (await search.within(deadline, 'by index', this.find(filter, ids, room, bucket)))?.rows ?? [];
    const deleted: Deleted[] = [];
    for (let from = 0; from < found.length; from += PER_TRANSACTION)
      deleted.push(...(await this.removeSome(found.slice(from, from + PER_TRANSACTION))));
    return deleted;
  }

  /** @internal @param bucket where the filter's key is */
  find(filter: MessageFilter, ids: readonly string[] | undefined, room: number, bucket: number | null = null): Sql {
    const { leases, ready } = this.names;
    const { text, values } = conditions(filter);
    const byId = ids === undefined ? '' : ' and o.id = any(?::uuid[])';
    const { transport = null } = filter;
    return statement(
      undefined,
      `select o.transport, o.bucket, o.seq from ${leases} l cross join lateral (select o.transport, o.bucket, o.seq
         from ${ready} o where o.transport = l.transport and o.bucket = l.bucket${text}${byId} order by o.seq limit ?) o
       where ${UNOWNED} and (?::smallint is null or l.transport = ?)
       and (?::smallint is null or l.bucket = ?) limit ?`,
    ).bind(
      ...values,
      ...(ids === undefined ? [] : [plainArray(ids)]),
      room,
      transport,
      transport,
      bucket,
      bucket,
      room,
    );
  }

  /** @internal */ removeSome(found: readonly (readonly unknown[])[]): Promise<Deleted[]> {
    return inTransaction(this.connection(), (tx) => this.removeIn(tx, found));
  }

  /** Rows: transport, bucket, seq. */
  async removeIn(tx: SqlExecutor, found: readonly (readonly unknown[])[]): Promise<Deleted[]> {
    const place = (row: readonly unknown[]): string => `${String(row[0])} ${String(row[1])}`;
    const places = [...new Map(found.map((row) => [place(row), row])).values()];
    const column = (rows: readonly (readonly unknown[])[], index: number): string =>
      plainArray(rows.map((row) => row[index] as string));
    const held = new Set((await tx.run(this.hold.bind(column(places, 0), column(places, 1)))).rows.map(place));
    const ours = found.filter((row) => held.has(place(row)));
    if (ours.length === 0) return [];
    const { rows } = await tx.run(this.remove.bind(column(ours, 0), column(ours, 1), column(ours, 2)));
    const ids = rows.map(([id]) => id as string);
    await this.parts.keys.free(tx, ids);
    return rows.map(([id, transport, bucket]) => ({
      id: id as string,
      transport: Number(transport),
      bucket: Number(bucket),
    }));
  }
}

const UNOWNED = '(l.owner is null or l.expires_at <= clock_timestamp() or l.idle_epoch = l.epoch)';
