import type { ParkedState } from '../../outbox-message.js';
import { systemClock } from '../../time/clock.js';
import type { Change } from '../admin-store.js';
import {
  BULK_LOOK,
  BULK_TIMEOUT,
  unlessEnded,
  type AuditOutcome,
  type AuditRow,
  type Bounds,
  type BulkPage,
  type BulkRequest,
  type BulkRow,
  type BulkStore,
  type NewAction,
} from '../bulk-store.js';
import type { SqlExecutor } from '../executor.js';
import { ERROR_LENGTH, type RowsById, type StoredRow } from '../inspect-store.js';
import { DEAD, SCHEDULED, stateNumber } from '../parked-state.js';
import type { AuditTable } from './audit.js';
import { ALWAYS, allOf, condition, type Conditions } from './conditions.js';
import { readText } from './dialect.js';
import { indexPage, type TimedSelects } from './index-pages.js';
import type { OperatorDatabase } from './operator-database.js';

export interface BulkSql {
  /** The parked table as `o`, by its key and by ids. */
  readonly from: { readonly key: string; readonly ids: string };
  /** What follows `select`: the first and the last number that are parked, and the time. */
  readonly bounds: string;
}
/** Done behind a change, in its transaction. */
export type Also = (tx: SqlExecutor, changed: number) => Promise<void>;

/** How rows that wait are changed: never those that are being sent. Each is one transaction, or several of which each is counted. */
export interface RowChanges {
  /** @returns the id of each row that was changed */
  change(change: Change, states: readonly ParkedState[], rows: readonly BulkRow[], also: Also): Promise<string[]>;
  cancelReady(rows: readonly StoredRow[], also: (asked: number) => Also): Promise<string[] | undefined>;
  /** @returns how many dead rows block no longer */
  releaseIn(tx: SqlExecutor, filter: { key: string; transport?: number }): Promise<number>;
}

/** What operators do to many rows, and what is written down of it. */
export class BulkTable implements BulkStore {
  constructor(
    private readonly database: OperatorDatabase,
    private readonly reads: TimedSelects,
    private readonly sql: BulkSql,
    private readonly changes: RowChanges,
    private readonly audits: AuditTable,
    /** Of these ids what waits, in a bucket if that is known. */
    readonly locate: (ids: readonly string[], bucket?: number) => Promise<RowsById>,
  ) {}

  async bounds(): Promise<Bounds> {
    const [[from = null, upTo = null, at] = []] = await this.reads.select(deadline(), this.sql.bounds, []);
    const now = new Date((this.database.dialect.readDate(at)?.getTime() ?? -1) + 1);
    return { from: readText(from), upTo: readText(upTo), at: String(at), now };
  }

  /** By ids all of them are looked at. */
  async find({ filter, bounds, after, backwards, limit, withErrors }: BulkRequest): Promise<BulkPage> {
    const { from, upTo } = bounds;
    if (from === null || upTo === null) return { rows: [], next: null };
    const { dialect } = this.database;
    const isByIds = filter.ids !== undefined;
    const rows = {
      from: isByIds ? this.sql.from.ids : this.sql.from.key,
      columns: [...COLUMNS, withErrors ? `coalesce(substring(o.last_error from 1 for ${ERROR_LENGTH}), '')` : "''"],
      order: [{ name: 'o.parked_id', part: 'number' }],
    } as const;
    const range = allOf([
      condition('o.parked_id >= ?', dialect.number(from)),
      condition('o.parked_id <= ?', dialect.number(upTo)),
    ]);
    const behind = after === null ? undefined : [after];
    const request = { after: behind, range, meant: this.meant(filter, bounds), limit, backwards };
    const look = isByIds ? undefined : BULK_LOOK;
    const page = await indexPage(this.reads, dialect, rows, { ...request, look }, deadline());
    return { rows: page.rows.map(readBulkRow), next: page.next?.[0] ?? null };
  }

  private meant(filter: BulkRequest['filter'], { at }: Bounds): Conditions {
    const { dialect } = this.database;
    const { ids, states, scheduledUpTo } = filter;
    return allOf([
      condition(`o.state in (${[0, ...states.map(stateNumber)].join(', ')})`),
      condition(`(o.state <> ${DEAD} or o.died_at is null or o.died_at <= ?)`, at),
      scheduledUpTo === undefined ? ALWAYS : condition(`(o.state <> ${SCHEDULED} or o.due_at <= ?)`, scheduledUpTo),
      ids === undefined ? ALWAYS : dialect.named(ids),
      dialect.filtered(filter),
    ]);
  }

  change(
    audit: string,
    change: Change,
    states: readonly ParkedState[],
    rows: readonly BulkRow[],
  ): Promise<string[] | undefined> {
    return unlessEnded(this.changes.change(change, states, rows, this.counting(audit, rows.length)));
  }

  cancelReady(audit: string, rows: readonly StoredRow[]): Promise<string[] | undefined> {
    return unlessEnded(this.changes.cancelReady(rows, (asked) => this.counting(audit, asked)));
  }

  release(audit: string, filter: { key: string; transport?: number }): Promise<number | undefined> {
    const work = this.database.transaction(async (tx) => {
      const released = await this.changes.releaseIn(tx, filter);
      await this.audits.count(tx, audit, released, 0);
      return released;
    });
    return unlessEnded(work);
  }

  private counting(audit: string, asked: number): Also {
    return (tx, done) => this.audits.count(tx, audit, done, Math.max(0, asked - done));
  }

  begin(action: NewAction): Promise<string> {
    return this.audits.begin(action);
  }
  end(audit: string, outcome: AuditOutcome, error: string | null): Promise<boolean> {
    return this.audits.end(audit, outcome, error);
  }
  audit(before: string | null, limit: number): Promise<AuditRow[]> {
    return this.audits.list(before, limit);
  }
}

const COLUMNS = ['o.parked_id', 'o.id', 'o.transport', 'o.bucket', 'o.seq'];
const deadline = (): number => systemClock.monotonic() + BULK_TIMEOUT;

function readBulkRow([rowId, id, transport, bucket, seq, error]: readonly unknown[]): BulkRow {
  return {
    rowId: String(rowId),
    id: String(id),
    transport: Number(transport),
    bucket: Number(bucket),
    seq: String(seq),
    error: String(error),
  };
}
