import { ActionEnded, type AuditOutcome, type AuditRow, type NewAction } from '../../bulk-store.js';
import type { SqlConnection, SqlExecutor, SqlResult } from '../../executor.js';
import type { TableNames } from '../../names.js';
import type { Sql } from '../../sql.js';
import { readDate, utc } from '../inspect/rows.js';
import { statement } from '../statement.js';

/** Who did what. A row that has ended does not change any more. */
export class PostgresAudit {
  /** @internal */ readonly sql: ReturnType<typeof statements>;

  constructor(
    readonly connection: () => SqlConnection,
    names: TableNames,
  ) {
    this.sql = statements(names);
  }

  async begin({ action, actor, filter }: NewAction): Promise<string> {
    const { rows } = await this.run(this.sql.begin.bind(action, actor, filter));
    return rows[0]?.[0] as string;
  }

  /** In the transaction of what is counted. @throws ActionEnded */
  async count(tx: SqlExecutor, audit: string, done: number, skipped: number): Promise<void> {
    const { affected } = await tx.run(this.sql.count.bind(done, skipped, audit));
    if (affected === 0) throw new ActionEnded();
  }

  async end(audit: string, outcome: AuditOutcome, error: string | null): Promise<boolean> {
    return (await this.run(this.sql.end.bind(outcome, error, audit))).affected > 0;
  }

  async list(before: string | null, limit: number): Promise<AuditRow[]> {
    return (await this.run(this.sql.list.bind(before, before, limit))).rows.map(readAudit);
  }

  /** @returns how many rows were deleted */
  async clean(age: number, limit: number): Promise<number> {
    return (await this.run(this.sql.clean.bind(age, limit))).affected;
  }

  run(sql: Sql): Promise<SqlResult> {
    return this.connection().run(sql);
  }
}

function statements({ audit }: TableNames) {
  return {
    begin: statement(undefined, `insert into ${audit} (action, actor, filter) values (?, ?, ?) returning audit_id`),
    count: statement(
      undefined,
      `update ${audit} set done = done + ?::bigint, skipped = skipped + ?::bigint, touched_at = clock_timestamp()
       where audit_id = ?::bigint and ended_at is null`,
    ),
    end: statement(
      undefined,
      `update ${audit} set outcome = ?, error = ?, ended_at = clock_timestamp(), touched_at = clock_timestamp()
       where audit_id = ?::bigint and ended_at is null`,
    ),
    list: statement(
      undefined,
      `select audit_id, action, actor, filter, ${utc('begun_at')}, ${utc('touched_at')}, ${utc('ended_at')}, done, skipped, outcome, error
       from ${audit} where ?::bigint is null or audit_id < ?::bigint order by audit_id desc limit ?`,
    ),
    clean: statement(
      undefined,
      `delete from ${audit} where ctid = any(array(select o.ctid from ${audit} o
         where o.begun_at < now() - ?::float8 * interval '1 ms' order by o.begun_at limit ? for update skip locked))`,
    ),
  };
}

function readAudit(row: readonly unknown[]): AuditRow {
  const [id, action, actor, filter, begunAt, touchedAt, endedAt, done, skipped, outcome, error] = row;
  return {
    id: id as string,
    action: action as AuditRow['action'],
    actor: actor as string,
    filter: filter as string,
    begunAt: readDate(begunAt),
    touchedAt: readDate(touchedAt),
    endedAt: readDate(endedAt),
    done: Number(done),
    skipped: Number(skipped),
    outcome: outcome as AuditRow['outcome'],
    error: error as string | null,
  };
}
