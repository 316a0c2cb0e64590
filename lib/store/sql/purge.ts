import { systemClock } from '../../time/clock.js';
import { BULK_LOOK, BULK_TIMEOUT, unlessEnded } from '../bulk-store.js';
import type { PurgePage, PurgeRequest, PurgeRow, PurgeStore } from '../edit/purge-store.js';
import type { SqlExecutor } from '../executor.js';
import { readPosition, writePosition } from '../position.js';
import type { Sql } from '../sql.js';
import type { AuditTable } from './audit.js';
import { ALWAYS, allOf, condition } from './conditions.js';
import { indexPage, type IndexedRows, type TimedSelects } from './index-pages.js';
import type { OperatorDatabase } from './operator-database.js';

export interface PurgeSql {
  /** The archive in the order of the publishing. A {@link PurgeRow} is the position of a row. */
  readonly archive: IndexedRows;
  /** Locks those that nobody else deletes just now, and returns their positions; `undefined` where `remove` passes by the others. */
  readonly lock: ((rows: readonly PurgeRow[]) => Sql) | undefined;
  remove(rows: readonly PurgeRow[]): Sql;
  /** What messages were before these edits. */
  forget(edits: readonly string[]): Sql;
}

/** What an operator deletes for good: what was published, and what messages were before their edits. */
export class PurgeTable implements PurgeStore {
  constructor(
    private readonly database: OperatorDatabase,
    private readonly reads: TimedSelects,
    private readonly sql: PurgeSql,
    private readonly audits: AuditTable,
  ) {}

  async archived({ ids, until, after, limit, ...filter }: PurgeRequest): Promise<PurgePage> {
    const { archive } = this.sql;
    const { dialect } = this.database;
    const request = {
      after:
        after === null
          ? undefined
          : readPosition(
              after,
              archive.order.map(({ part }) => part),
            ),
      range: condition('o.published_at <= ?', dialect.time(until)),
      meant: allOf([dialect.filtered(filter), ids === undefined ? ALWAYS : dialect.named(ids)]),
      limit,
      look: BULK_LOOK,
    };
    const end = systemClock.monotonic() + BULK_TIMEOUT;
    const { positions, next } = await indexPage(this.reads, dialect, archive, request, end);
    const [last = null] = next ?? positions.at(-1) ?? [];
    return { rows: positions, next: next === undefined ? null : writePosition(next), at: dialect.readDate(last) };
  }

  remove(audit: string, rows: readonly PurgeRow[]): Promise<number | undefined> {
    return this.counted(audit, rows.length, async (tx) => {
      const free = this.sql.lock === undefined ? rows : (await tx.run(this.sql.lock(rows))).rows;
      if (free.length === 0) return 0;
      return (await tx.run(this.sql.remove(free.map((row) => row.map(String))))).affected;
    });
  }

  forget(audit: string, edits: readonly string[]): Promise<number | undefined> {
    return this.counted(audit, edits.length, async (tx) => (await tx.run(this.sql.forget(edits))).affected);
  }

  private counted(
    audit: string,
    asked: number,
    change: (tx: SqlExecutor) => Promise<number>,
  ): Promise<number | undefined> {
    const work = this.database.transaction(async (tx) => {
      const done = await change(tx);
      await this.audits.count(tx, audit, done, Math.max(0, asked - done));
      return done;
    });
    return unlessEnded(work);
  }
}
