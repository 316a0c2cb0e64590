import { systemClock } from '../../time/clock.js';
import { lookDeadline } from '../find-by-id.js';
import {
  BULK_TIMEOUT,
  type Bounds,
  type BucketRow,
  type FailureRequest,
  type InspectStore,
  type RowContent,
  type RowPage,
  type RowRequest,
  type RowsById,
  type RowSurroundings,
  type StoredRow,
} from '../inspect-store.js';
import type { StoreSettings } from '../names.js';
import { readText, type Dialect } from './dialect.js';
import { Lookup, type LookupSql, type Place } from './lookup.js';
import { Pages, type PageSql } from './pages.js';
import { readLease, readRow } from './rows.js';
import type { Rows, Select, TimedSelects } from './timed-selects.js';

export interface InspectSql extends LookupSql, PageSql {
  /** The columns of {@link readLease}, and the time: of a bucket without a lease, too. */
  lease(transport: number, bucket: number): Select;
  /** The first row of its key that blocks; `before`: of those before it. */
  blocker(row: StoredRow, before: boolean): Select;
  /** Ready rows before one, up to a bound. */
  ahead(row: StoredRow): Select;
  /** Bucket, and the columns of {@link readLease}. */
  leasesOf(transport: number): Select;
  /** Bucket, ready rows up to this number and to a bound, number and time of the first ready row. */
  counted(transport: number, buckets: readonly number[], upTo: string | undefined): Select;
  /** The first and the last number that are parked, and the time. */
  readonly bounds: Select;
  failures(request: FailureRequest, transports: readonly number[], places: readonly Place[]): Select;
  readFailures(rows: Rows, request: FailureRequest): Awaited<ReturnType<InspectStore['failures']>>;
}

/** Buckets that one statement counts. */
const BUCKETS_AT_ONCE = 64;

/** What people ask about messages. Every statement goes by an index, or has a deadline. */
export class Inspection implements InspectStore {
  readonly lookup: Lookup;
  private readonly pages: Pages;

  constructor(
    private readonly reads: TimedSelects,
    private readonly dialect: Dialect,
    private readonly sql: InspectSql,
    private readonly settings: StoreSettings,
  ) {
    this.lookup = new Lookup(reads, dialect, sql, settings);
    this.pages = new Pages(reads, dialect, sql, settings, this.lookup);
  }

  async bounds(): Promise<Bounds> {
    const deadline = systemClock.monotonic() + BULK_TIMEOUT;
    const [[from = null, upTo = null, at] = []] = await this.reads.select(deadline, this.sql.bounds);
    const now = new Date((this.dialect.readDate(at)?.getTime() ?? -1) + 1);
    return { from: readText(from), upTo: readText(upTo), at: String(at), now };
  }

  find(request: RowRequest): Promise<RowPage> {
    return this.pages.find(request);
  }
  byIds(ids: readonly string[], waiting?: { readonly bucket?: number }): Promise<RowsById> {
    return this.lookup.byIds(ids, waiting);
  }
  content(row: StoredRow, previewBytes: number): Promise<RowContent | undefined> {
    return this.lookup.content(row, previewBytes);
  }

  async surroundings(row: StoredRow): Promise<RowSurroundings> {
    const [lease = []] = await this.run(this.sql.lease(row.transport, row.bucket));
    const ahead = row.state === 'ready' ? await this.run(this.sql.ahead(row)) : [];
    return {
      now: this.dialect.readDate(lease.at(-1)) ?? new Date(0),
      lease: readLease(this.dialect, lease),
      blocker: await this.blocker(row),
      ahead: Number(ahead[0]?.[0] ?? 0),
    };
  }

  private async blocker(row: StoredRow): Promise<StoredRow | null> {
    if (row.key === null && this.settings.ordering !== 'global') return null;
    const isBehindAll = row.state === 'ready' || row.state === 'scheduled';
    const [first] = await this.run(this.sql.blocker(row, !isBehindAll));
    return first === undefined ? null : readRow(this.dialect, first);
  }

  async failures(request: FailureRequest): ReturnType<InspectStore['failures']> {
    const places = await this.lookup.places(request.transport);
    if (places.length === 0) return { rows: [], looked: 0, cut: false };
    const transports = [...new Set(places.map(([transport]) => transport))];
    return this.sql.readFailures(await this.run(this.sql.failures(request, transports, places)), request);
  }

  async buckets(transport?: number, upTo?: string): Promise<BucketRow[]> {
    const all: BucketRow[] = [];
    for (const [of, buckets] of await this.together(transport)) {
      const held = await this.run(this.sql.leasesOf(of));
      const leases = new Map(held.map(([bucket, ...lease]) => [Number(bucket), readLease(this.dialect, lease)]));
      const counted = await this.run(this.sql.counted(of, buckets, upTo));
      const rows = counted.map(([bucket, ready, first, oldest]) => ({
        transport: of,
        bucket: Number(bucket),
        ready: Number(ready),
        first: Number(ready) === 0 ? null : readText(first ?? null),
        oldestReadyAt: this.dialect.readDate(oldest),
        lease: leases.get(Number(bucket)) ?? null,
      }));
      all.push(...rows.sort((one, other) => one.bucket - other.bucket));
    }
    return all;
  }

  /** As many buckets of one transport as a statement counts. */
  private async together(transport?: number): Promise<(readonly [transport: number, buckets: number[]])[]> {
    const parts = new Map<string, readonly [number, number[]]>();
    for (const [of, bucket] of await this.lookup.places(transport)) {
      const name = `${of} ${Math.floor(bucket / BUCKETS_AT_ONCE)}`;
      const part = parts.get(name);
      if (part === undefined) parts.set(name, [of, [bucket]]);
      else part[1].push(bucket);
    }
    return [...parts.values()];
  }

  private run(read: Select): Promise<Rows> {
    return this.reads.select(lookDeadline(), read);
  }
}
