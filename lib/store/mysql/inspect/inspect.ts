import { lookDeadline } from '../../find-by-id.js';
import { keyBytes } from '../../../message/key-bytes.js';
import type { SqlDatabase } from '../../executor.js';
import {
  AHEAD_LIMIT,
  BUCKET_READY_LIMIT,
  type BucketRow,
  type FailureRequest,
  type InspectStore,
  type ReadyRest,
  type RowContent,
  type RowLease,
  type RowPage,
  type RowRequest,
  type RowsById,
  type RowSurroundings,
  type StoredRow,
} from '../../inspect-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { Row } from '../columns.js';
import type { MysqlServer } from '../schema/server.js';
import { times } from '../statements.js';
import { failuresSelect, readFailures } from './failures.js';
import { MysqlLookup } from './lookup.js';
import { MysqlPages } from './pages.js';
import { LEASE_COLUMNS, readDate, readLease, readRow, ROW_COLUMNS } from './rows.js';
import { TimedSelect } from './select.js';

/** Buckets that one statement counts. */
const BUCKETS_AT_ONCE = 64;

/** What people ask about messages. Every statement goes by an index, or has a deadline. */
export class MysqlInspect implements InspectStore {
  /** @internal */ readonly select: TimedSelect;
  /** @internal */ readonly lookup: MysqlLookup;
  /** @internal */ readonly pages: MysqlPages;

  constructor(
    database: SqlDatabase,
    server: MysqlServer,
    readonly names: TableNames,
    readonly settings: StoreSettings,
  ) {
    this.select = new TimedSelect(database, server);
    this.lookup = new MysqlLookup(database, this.select, names, settings);
    this.pages = new MysqlPages(this.select, names, settings, this.lookup);
  }

  page(request: RowRequest): Promise<RowPage> {
    return this.pages.page(request);
  }
  byIds(ids: readonly string[]): Promise<RowsById> {
    return this.lookup.byIds(ids);
  }
  content(row: StoredRow, previewBytes: number): Promise<RowContent | undefined> {
    return this.lookup.content(row, previewBytes);
  }
  /** No snapshot of this server tells. */
  async openTransactions(): Promise<undefined> {
    return undefined;
  }

  async surroundings(row: StoredRow): Promise<RowSurroundings> {
    const { transport, bucket, seq, state } = row;
    const { leases, ready } = this.names;
    const lease = `${LEASE_COLUMNS}, utc_timestamp(6) from (select 1 as one) o left join ${leases} l on l.transport = ? and l.bucket = ?`;
    const [found = []] = await this.run(lease, [transport, bucket]);
    const before = `count(*) from (select 1 from ${ready} force index (primary)
      where transport = ? and bucket = ? and seq < ? limit ${AHEAD_LIMIT}) a`;
    const ahead = state === 'ready' ? await this.run(before, [transport, bucket, BigInt(seq)]) : [];
    return {
      now: readDate(found.at(-1)) ?? new Date(0),
      lease: readLease(found),
      blocker: await this.blocker(row),
      ahead: Number(ahead[0]?.[0] ?? 0),
    };
  }

  /** @internal */ async blocker({ transport, bucket, key, seq, state, rowId }: StoredRow): Promise<StoredRow | null> {
    const isGlobal = this.settings.ordering === 'global';
    if (key === null && !isGlobal) return null;
    const isBehindAll = state === 'ready' || state === 'scheduled';
    const conditions = [
      'transport = ? and bucket = ? and blocking = 1',
      ...(isGlobal ? [] : ['`key` = ?']),
      ...(isBehindAll ? [] : ['(seq < ? or (seq = ? and parked_id < ?))']),
    ];
    const number = BigInt(seq);
    const values = [
      ...[transport, bucket],
      ...(isGlobal ? [] : [keyBytes(key as string)]),
      ...(isBehindAll ? [] : [number, number, BigInt(rowId ?? '0')]),
    ];
    const rest = `${ROW_COLUMNS.parked} from ${this.names.parked} force index (by_key)
      where ${conditions.join(' and ')} order by seq, parked_id limit 1`;
    const [first] = await this.run(rest, values);
    return first === undefined ? null : readRow(first);
  }

  async failures(request: FailureRequest): ReturnType<InspectStore['failures']> {
    const { transport } = request;
    const transports = transport === undefined ? await this.lookup.transportIds() : [transport];
    if (transports.length === 0) return { rows: [], looked: 0, cut: false };
    const { rest, values } = failuresSelect(this.names.parked, request, transports);
    return readFailures(await this.run(rest, values), request);
  }

  async buckets(transport?: number): Promise<BucketRow[]> {
    const transports = transport === undefined ? await this.lookup.transportIds() : [transport];
    const all: BucketRow[] = [];
    for (const id of transports) all.push(...(await this.bucketsOf(id)));
    return all;
  }

  /** @internal */ async bucketsOf(transport: number): Promise<BucketRow[]> {
    const count = this.settings.ordering === 'global' ? 1 : this.settings.buckets;
    const held = await this.run(`l.bucket, ${LEASE_COLUMNS} from ${this.names.leases} l where l.transport = ?`, [
      transport,
    ]);
    const leases = new Map<number, RowLease | null>(
      held.map(([bucket, ...lease]) => [Number(bucket), readLease(lease)]),
    );
    const rows: BucketRow[] = [];
    for (let from = 0; from < count; from += BUCKETS_AT_ONCE) {
      const buckets = Array.from({ length: Math.min(BUCKETS_AT_ONCE, count - from) }, (_, n) => from + n);
      for (const [bucket, ready, oldest] of await this.counted(transport, buckets)) {
        const of = Number(bucket);
        const lease = leases.get(of) ?? null;
        rows.push({ transport, bucket: of, lease, ready: Number(ready), oldestReadyAt: readDate(oldest) });
      }
    }
    return rows.sort((a, b) => a.bucket - b.bucket);
  }

  /** @internal */ counted(transport: number, buckets: readonly number[]): Promise<readonly Row[]> {
    const place = `from ${this.names.ready} force index (primary) where transport = ? and bucket = ?`;
    const each = `(select ? as bucket, (select count(*) from (select 1 ${place} limit ${BUCKET_READY_LIMIT}) c) as ready,
      (select created_at ${place} order by seq limit 1) as oldest)`;
    const values = buckets.flatMap((bucket) => [bucket, transport, bucket, transport, bucket]);
    return this.run(`* from (${times(buckets.length, each, ' union all ')}) b`, values);
  }

  async highestReady(): Promise<string | null> {
    const [row] = await this.run(`max(seq) from ${this.names.ready}`, []);
    return row === undefined || row[0] === null ? null : String(row[0]);
  }

  async readyUpTo(highest: string, transport?: number): Promise<ReadyRest[]> {
    const transports = transport === undefined ? await this.lookup.transportIds() : [transport];
    const count = this.settings.ordering === 'global' ? 1 : this.settings.buckets;
    const rest: ReadyRest[] = [];
    for (const id of transports)
      for (let from = 0; from < count; from += BUCKETS_AT_ONCE)
        rest.push(...(await this.restOf(id, from, Math.min(BUCKETS_AT_ONCE, count - from), BigInt(highest))));
    return rest;
  }

  /** By equality alone: with a bound of `seq` MySQL may read all of the table, where its statistics are those of an empty one. @internal */
  async restOf(transport: number, from: number, some: number, highest: bigint): Promise<ReadyRest[]> {
    const place = `from ${this.names.ready} force index (primary) where transport = ? and bucket = ? order by seq`;
    const first = `(select bucket, seq ${place} limit 1)`;
    const buckets = Array.from({ length: some }, (_, n) => from + n);
    const found = await this.run(`* from (${times(some, first, ' union all ')}) b where b.seq <= ?`, [
      ...buckets.flatMap((bucket) => [transport, bucket]),
      highest,
    ]);
    if (found.length === 0) return [];
    const count = `(select ? as bucket, count(*) from (select seq ${place} limit ${BUCKET_READY_LIMIT}) c where c.seq <= ?)`;
    const counted = await this.run(
      `* from (${times(found.length, count, ' union all ')}) b`,
      found.flatMap(([bucket]) => [bucket, transport, bucket, highest]),
    );
    const counts = new Map(counted.map(([bucket, ready]) => [Number(bucket), Number(ready)]));
    return found
      .map(([bucket, seq]) => ({ transport, bucket: Number(bucket), first: String(seq) }))
      .map((rest) => ({ ...rest, count: counts.get(rest.bucket) ?? 0 }))
      .filter(({ count: ready }) => ready > 0); // published between the two
  }

  /** @internal */ run(rest: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return this.select.select(lookDeadline(), rest, values);
  }
}
