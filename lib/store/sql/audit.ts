import { ActionEnded, type AuditOutcome, type AuditRow, type NewAction } from '../bulk-store.js';
import type { SqlExecutor, SqlResult } from '../executor.js';
import type { Sql, Statement } from '../sql.js';
import type { Dialect } from './dialect.js';
import type { OperatorDatabase } from './operator-database.js';

export interface AuditSql {
  /** Action, actor, filter. */
  readonly begin: Statement;
  /** Done, skipped, number. */
  readonly count: Statement;
  /** Outcome, error, number. */
  readonly end: Statement;
  /** The last ones first: limit. Of {@link AuditRow} the columns in their order. */
  readonly list: Statement;
  /** The same of those before one: number, limit. */
  readonly listBefore: Statement;
  /** Milliseconds, limit. */
  clean(age: number, limit: number): Sql;
}

/** Who did what. A row that has ended does not change any more. */
export class AuditTable {
  private readonly dialect: Dialect;

  constructor(
    private readonly database: OperatorDatabase,
    private readonly sql: AuditSql,
  ) {
    this.dialect = database.dialect;
  }

  begin(action: NewAction): Promise<string> {
    return this.database.transaction((tx) => this.beginIn(tx, action));
  }

  beginIn(tx: SqlExecutor, { action, actor, filter }: NewAction): Promise<string> {
    return this.database.insert(tx, this.sql.begin.bind(action, actor, filter));
  }

  /** In the transaction of what is counted. @throws ActionEnded */
  async count(tx: SqlExecutor, audit: string, done: number, skipped: number): Promise<void> {
    const { affected } = await tx.run(this.sql.count.bind(done, skipped, this.dialect.number(audit)));
    if (affected === 0) throw new ActionEnded();
  }

  async end(audit: string, outcome: AuditOutcome, error: string | null): Promise<boolean> {
    return (await this.run(this.ended(audit, outcome, error))).affected > 0;
  }

  async endIn(tx: SqlExecutor, audit: string): Promise<void> {
    await tx.run(this.ended(audit, 'done', null));
  }

  async list(before: string | null, limit: number): Promise<AuditRow[]> {
    const { list, listBefore } = this.sql;
    const sql = before === null ? list.bind(limit) : listBefore.bind(this.dialect.number(before), limit);
    return (await this.run(sql)).rows.map((row) => this.read(row));
  }

  /** @returns how many rows were deleted */
  async clean(age: number, limit: number): Promise<number> {
    return (await this.run(this.sql.clean(age, limit))).affected;
  }

  run(sql: Sql): Promise<SqlResult> {
    return this.database.run(sql);
  }

  private ended(audit: string, outcome: AuditOutcome, error: string | null): Sql {
    return this.sql.end.bind(outcome, error, this.dialect.number(audit));
  }

  private read(row: readonly unknown[]): AuditRow {
    const [id, action, actor, filter, begunAt, touchedAt, endedAt, done, skipped, outcome, error] = row;
    return {
      id: String(id),
      action: action as AuditRow['action'],
      actor: actor as string,
      filter: filter as string,
      begunAt: this.dialect.readDate(begunAt),
      touchedAt: this.dialect.readDate(touchedAt),
      endedAt: this.dialect.readDate(endedAt),
      done: Number(done),
      skipped: Number(skipped),
      outcome: outcome as AuditRow['outcome'],
      error: error as string | null,
    };
  }
}
