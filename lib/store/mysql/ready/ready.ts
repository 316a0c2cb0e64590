import { randomUUID } from 'node:crypto';
import { systemClock } from '../../../time/clock.js';
import { compareSeq, type Place } from '../../../outbox-message.js';
import type { SqlDatabase } from '../../executor.js';
import { sameSession } from '../../same-session.js';
import type {
  FetchResult,
  NumberSource,
  ProbeResult,
  ReadPosition,
  ReadRange,
  ReadyStore,
  SweepResult,
} from '../../ready-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import { BoundedReads } from './bounded-reads.js';
import { messageFrom, readMessage, readTime, type Row } from '../columns.js';
import { lookUp, placeRows, PLACES } from '../json-rows.js';
import { retried } from '../../retry.js';
import type { MysqlServer } from '../schema/server.js';
import type { MysqlPayloads } from './payloads.js';
import type { MysqlSettle } from './settle.js';
import { sized, times } from '../statements.js';

/** Few rows are read with one range scan over all buckets, in 0.25 ms where a branch per bucket takes 0.7. */
const FEW = 64;
const SWEEP_PAGE = 5_000;
/** Milliseconds between two questions about numbers. */
const ASK_EVERY = 100;

/** The hot table. All reads go by the primary key; `force index` because the optimizer likes the key on `seq`. */
export class MysqlReady implements ReadyStore {
  /** A backlog of 200 k rows: 32 buckets a read cost 8.5 µs of the server a row, four 3.4, one 2.0. */
  readonly bucketsPerRead = 4;
  private readonly sql: ReturnType<typeof readyStatements>;
  /** transports whose last fetch found more than {@link FEW} rows */
  private readonly backlog = new Set<number>();
  readonly bounded = new BoundedReads(() => systemClock.monotonic());
  /** Milliseconds, by transport: when its numbers were asked for. */
  private readonly askedAt = new Map<number, number>();
  private flushed = false;
  private readonly flushRow = `flush:${randomUUID()}`;

  constructor(
    readonly database: SqlDatabase,
    readonly server: MysqlServer,
    names: TableNames,
    /** Whose the tables are. */
    readonly settings: Pick<StoreSettings, 'schema' | 'prefix'>,
    readonly parts: {
      readonly payloads: MysqlPayloads;
      readonly settle: MysqlSettle;
    },
  ) {
    this.sql = readyStatements(names);
  }

  get session(): number {
    return this.database.connection('read').generation;
  }

  readPayloads(...args: Parameters<ReadyStore['readPayloads']>): ReturnType<ReadyStore['readPayloads']> {
    return this.parts.payloads.read(...args);
  }

  settle(...args: Parameters<ReadyStore['settle']>): ReturnType<ReadyStore['settle']> {
    return this.parts.settle.settle(...args);
  }

  park(...args: Parameters<ReadyStore['park']>): ReturnType<ReadyStore['park']> {
    return this.parts.settle.park(...args);
  }

  async fetch(request: {
    transport: number;
    positions: readonly ReadPosition[];
    perBucket: number;
    limit: number;
  }): Promise<FetchResult> {
    const { transport, positions, perBucket, limit } = request;
    const most = Math.min(perBucket, limit);
    if (positions.length === 0 || most <= 0) return this.result(transport, []);
    const branches = positions.flatMap(({ bucket, after: seq }) => [transport, bucket, BigInt(seq), most]);
    const rows = await this.bounded.measure((bounded) =>
      bounded
        ? this.read(this.sql.fetchBounded(positions.length).bind(...branches, ...ofAll(positions, limit)))
        : this.fetchRanges(transport, positions, branches, { most, limit }),
    );
    return this.result(transport, rows);
  }

  private async fetchRanges(
    transport: number,
    positions: readonly ReadPosition[],
    branches: readonly unknown[],
    { most, limit }: { most: number; limit: number },
  ): Promise<readonly Row[]> {
    const few = positions.length === 1 ? most : Math.min(most, FEW);
    if (positions.length === 1 || !this.backlog.has(transport)) {
      const rows = await this.read(this.sql.fetchFew(positions.length).bind(...after(transport, positions), few + 1));
      if (rows.length <= few || positions.length === 1) return rows.slice(0, most);
    }
    const rows = await this.read(this.sql.fetchMany(positions.length).bind(...branches, limit));
    if (rows.length > few) this.backlog.add(transport);
    else this.backlog.delete(transport);
    return rows;
  }

  async readPlaces(transport: number, places: readonly Place[]): Promise<FetchResult> {
    if (places.length === 0) return this.result(transport, []);
    const sorted = [...places].sort((a, b) => a.bucket - b.bucket || compareSeq(a.seq, b.seq));
    const read = this.sql.readPlaces.bind(placeRows(sorted), transport);
    const { messages, ...rest } = await this.result(transport, await this.read(read));
    messages.sort((a, b) => a.bucket - b.bucket || compareSeq(a.seq, b.seq));
    return { messages, ...rest };
  }

  async sweep(transport: number, ranges: readonly ReadRange[], known = 0): Promise<SweepResult> {
    if (ranges.length === 0) return { places: [], complete: true };
    const sorted = [...ranges].sort((a, b) => a.bucket - b.bucket);
    const page = SWEEP_PAGE + known;
    const rows = await this.bounded.measure((bounded) =>
      bounded
        ? this.read(
            this.sql.sweepBounded(sorted.length).bind(...within(transport, sorted, page), ...ofAll(sorted, page)),
          )
        : this.read(this.sql.sweep(sorted.length).bind(...within(transport, sorted), page)),
    );
    const places = rows.map(([bucket, seq]) => ({ bucket: bucket as number, seq: seq as string }));
    return { places, complete: rows.length < page };
  }

  /**
   * Whether what a dirty read sees in a range is exactly what a committed read sees right after: an uncommitted insert
   * is the one thing that makes a difference that stays. Exact at both ends of the range, waits for nobody and makes
   * nobody wait; a locking NOWAIT read also fails on the open row of a neighbour, because InnoDB locks the row behind the range.
   * A commit or a settle between the two reads gives a `false` too much, which only means to ask again.
   */
  async probe(transport: number, ranges: readonly ReadRange[]): Promise<ProbeResult> {
    const bounded = this.bounded.areOn;
    const { sums: ofRanges, sumsBounded } = this.sql;
    const sums = (bounded ? sumsBounded : ofRanges)(ranges.length).bind(...within(transport, ranges));
    const read = this.database.connection('read');
    const { generation } = read;
    const began = this.bounded.now();
    // Called in one go, so that no other statement can get between the setting and the read it is for.
    const [, dirty, committed] = await Promise.all([read.run(this.sql.dirty.bind()), read.run(sums), read.run(sums)]);
    this.bounded.took(bounded, (this.bounded.now() - began) / 2);
    const before = byBucket(dirty.rows);
    const after = byBucket(committed.rows);
    const same = read.generation === generation;
    return {
      clean: ranges.map(({ bucket }) => same && before.get(bucket) === after.get(bucket)),
      now: readTime(after.get(null)),
      lockWait: 1_000 * Number(committed.rows.at(-1)?.[2]),
    };
  }

  /** Asked with a read some times a second, for each transport: it is a statement of its own. */
  private async numberSource(transport: number): Promise<NumberSource | undefined> {
    const now = this.bounded.now();
    if (now - (this.askedAt.get(transport) ?? -Infinity) < ASK_EVERY) return undefined;
    this.askedAt.set(transport, now);
    const { schema, prefix } = this.settings;
    const [row] = await this.read(this.sql.numberSource.bind(schema ?? null, `${prefix}ready`));
    if (row === undefined) return { server: undefined, table: undefined, last: undefined };
    const [server, table, next] = row.map((value) => (value === null ? undefined : String(value)));
    return { server, table, last: next === undefined ? undefined : String(BigInt(next) - 1n) };
  }

  /** InnoDB's log is written in order: when our own small commit is on disk, everything visible before it is. */
  async flush(session?: number): Promise<void> {
    this.flushed = true;
    const read = this.database.connection('read');
    await retried(() => read.run(this.sql.flush.bind(this.flushRow)));
    sameSession(read, session);
  }
  async dropFlushRow(): Promise<void> {
    if (this.flushed) await this.database.connection('lease').run(this.sql.dropFlushRow.bind(this.flushRow));
  }

  private async read(sql: Parameters<ReturnType<SqlDatabase['connection']>['run']>[0]): Promise<readonly Row[]> {
    return (await this.database.connection('read').run(sql)).rows;
  }
  /** `messages` stays sortable: it is nobody else's yet */
  private async result(transport: number, rows: readonly Row[]): Promise<FetchResult> {
    const durable = rows.length === 0 || (await this.server.state()).visibleIsDurable;
    const session = this.database.connection('read').generation;
    return {
      messages: rows.map(readMessage),
      snapshot: undefined,
      durable,
      session,
      source: await this.numberSource(transport),
    };
  }
}

function readyStatements({ ready, meta }: TableNames) {
  const from = `from ${ready} h force index (primary)`;
  // The transport stands in every branch: in front of them it would offer a look-up of the whole transport instead of ranges.
  const place = '(h.transport = ? and h.bucket = ? and h.seq > ?)';
  const range = '(h.transport = ? and h.bucket = ? and h.seq > ? and h.seq <= ?)';
  const sums = `select h.bucket, concat_ws(' ', count(*), sum(h.seq), bit_xor(h.seq)) s, null w ${from}`;
  const clock = 'union all select null, cast(utc_timestamp(6) as char), @@global.innodb_lock_wait_timeout';
  const inOrder = 'order by h.transport, h.bucket, h.seq';
  const branch = `(select ${messageFrom('h')} ${from} where ${place.slice(1, -1)} order by h.seq limit ?)`;
  return {
    ...boundedReads(from, sums, clock),
    fetchFew: sized((n) => `select ${messageFrom('h')} ${from} where ${times(n, place, ' or ')} ${inOrder} limit ?`),
    fetchMany: sized((n) => `${times(n, branch, ' union all ')} limit ?`),
    sweep: sized((n) => `select h.bucket, h.seq ${from} where ${times(n, range, ' or ')} ${inOrder} limit ?`),
    sums: sized((n) => `${sums} where ${times(n, range, ' or ')} ${PER_BUCKET} ${clock}`),
    dirty: statement('dirty read', 'set transaction isolation level read uncommitted'),
    readPlaces: statement(
      'read places',
      `select ${messageFrom('h')}
      from ${lookUp(PLACES, `${ready} h`)} on h.transport = ? and h.bucket = k.b and h.seq = k.s`,
    ),
    numberSource: statement(
      'number source',
      `select concat_ws(' ', @@server_id, @@hostname, @@port), create_time, auto_increment from information_schema.tables
      where table_schema = coalesce(?, database()) and table_name = ?`,
    ),
    flush: statement(
      'flush',
      `insert into ${meta} (name, value) values (?, utc_timestamp(6))
      on duplicate key update value = utc_timestamp(6)`,
    ),
    dropFlushRow: statement('drop flush row', `delete from ${meta} where name = ?`),
  };
}

/** By the prefix of the key, which is left with the bucket. `+ 0` keeps the numbers out of the range. */
function boundedReads(from: string, sums: string, clock: string) {
  const bucket = 'h.transport = ? and h.bucket = ? and h.seq + 0 > ?';
  const range = `${bucket} and h.seq + 0 <= ?`;
  const all = (n: number, branch: string): string => times(n, branch, ' union all ');
  // One in parentheses with a limit of its own goes through a temporary table on MariaDB, and comes out in no order.
  const limited = (n: number, branch: string): string => (n === 1 ? branch : `${all(n, `(${branch})`)} limit ?`);
  const rows = `select ${messageFrom('h')} ${from} where ${bucket} order by h.seq limit ?`;
  const places = `select h.bucket, h.seq ${from} where ${range} order by h.seq limit ?`;
  return {
    fetchBounded: sized((n) => limited(n, rows)),
    sweepBounded: sized((n) => limited(n, places)),
    sumsBounded: sized((n) => `${all(n, `${sums} where ${range} ${PER_BUCKET}`)} ${clock}`),
  };
}

const PER_BUCKET = 'group by h.transport, h.bucket';
const after = (transport: number, positions: readonly ReadPosition[]): unknown[] =>
  positions.flatMap((position) => [transport, position.bucket, BigInt(position.after)]);
const within = (transport: number, ranges: readonly ReadRange[], ...each: number[]): unknown[] =>
  ranges.flatMap((range) => [transport, range.bucket, BigInt(range.after), BigInt(range.upTo), ...each]);
/** The limit of all buckets together; one has its own. */
const ofAll = (buckets: readonly unknown[], limit: number): number[] => (buckets.length === 1 ? [] : [limit]);
const byBucket = (rows: readonly Row[]): Map<unknown, unknown> => new Map(rows.map(([bucket, sums]) => [bucket, sums]));
