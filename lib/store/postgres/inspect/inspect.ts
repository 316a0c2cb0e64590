import { lookDeadline } from '../../find-by-id.js';
import type { SqlConnection, SqlResult } from '../../executor.js';
import {
  type BucketRow,
  type FailureRequest,
  type InspectStore,
  type ReadyRest,
  type RowContent,
  type RowPage,
  type RowRequest,
  type RowsById,
  type RowSurroundings,
  type StoredRow,
} from '../../inspect-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { Sql } from '../../sql.js';
import { failuresSql, readFailures } from './failures.js';
import { PostgresLookup } from './lookup.js';
import { PostgresPages } from './pages.js';
import { readDate, readLease, readRow } from './rows.js';
import { bucketStatement, restStatements, surroundingStatements } from './surroundings.js';
import { TimedReads } from './timed-reads.js';

/** What people ask about messages. Every statement goes by an index, or has a deadline. */
export class PostgresInspect implements InspectStore {
  /** @internal */ readonly reads: TimedReads;
  /** @internal */ readonly pages: PostgresPages;
  /** @internal */ readonly lookup: PostgresLookup;
  /** @internal */ readonly sql: ReturnType<typeof surroundingStatements>;
  /** @internal */ readonly rest: ReturnType<typeof restStatements>;

  constructor(
    readonly connection: () => SqlConnection,
    readonly names: TableNames,
    readonly settings: StoreSettings,
  ) {
    this.reads = new TimedReads(connection);
    this.lookup = new PostgresLookup(this.reads, names, settings);
    this.pages = new PostgresPages(this.reads, names, settings, this.lookup);
    this.sql = surroundingStatements(names, settings);
    this.rest = restStatements(names, settings);
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

  async surroundings(row: StoredRow): Promise<RowSurroundings> {
    const { transport, bucket, seq } = row;
    const [lease = []] = (await this.run(this.sql.lease.bind(transport, bucket))).rows;
    const blockers = row.key === null && this.settings.ordering !== 'global' ? [] : await this.blockers(row);
    const ahead = row.state === 'ready' ? await this.run(this.sql.ahead.bind(transport, bucket, seq)) : undefined;
    return {
      now: readDate(lease.at(-1)) ?? new Date(0),
      lease: readLease(lease),
      blocker: blockers[0] ?? null,
      ahead: Number(ahead?.rows[0]?.[0] ?? 0),
    };
  }

  /** @internal */ async blockers({ transport, bucket, key, seq, state, rowId }: StoredRow): Promise<StoredRow[]> {
    const isBehindAll = state === 'ready' || state === 'scheduled';
    const ofKey = this.settings.ordering === 'global' ? [] : [key];
    const look = isBehindAll
      ? this.sql.firstOfKey.bind(transport, bucket, ...ofKey)
      : this.sql.beforeInKey.bind(transport, bucket, ...ofKey, seq, rowId);
    return (await this.run(look)).rows.map(readRow);
  }

  async openTransactions(): Promise<number> {
    return Number((await this.connection().run(this.sql.open.bind())).rows[0]?.[0]);
  }

  async failures(request: FailureRequest): ReturnType<InspectStore['failures']> {
    const places = await this.lookup.places(request.transport);
    return readFailures((await this.run(failuresSql(this.names, request, places))).rows, request);
  }

  async buckets(transport?: number): Promise<BucketRow[]> {
    const { rows } = await this.run(
      bucketStatement(this.names, this.settings).bind(transport ?? null, transport ?? null),
    );
    return rows.map(([of, bucket, ready, oldest, ...lease]) => ({
      transport: Number(of),
      bucket: Number(bucket),
      ready: Number(ready),
      oldestReadyAt: readDate(oldest),
      lease: readLease(lease),
    }));
  }

  async highestReady(): Promise<string | null> {
    return ((await this.run(this.rest.highest.bind())).rows[0]?.[0] ?? null) as string | null;
  }

  async readyUpTo(highest: string, transport: number | null = null): Promise<ReadyRest[]> {
    const { rows } = await this.run(this.rest.upTo.bind(highest, highest, transport, transport));
    return rows.map(([of, bucket, first, count]) => ({
      transport: Number(of),
      bucket: Number(bucket),
      first: first as string,
      count: Number(count),
    }));
  }

  /** @internal */ run(sql: Sql): Promise<SqlResult> {
    return this.reads.inTime(lookDeadline(), sql);
  }
}
