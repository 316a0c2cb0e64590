import { ActionEnded, type AuditOutcome, type AuditRow, type NewAction } from '../../bulk-store.js';
import type { SqlDatabase, SqlExecutor, SqlResult } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { statement, type Sql } from '../../sql.js';
import { readDate } from '../inspect/rows.js';
import { retried } from '../retry.js';

/** Who did what. A row that has ended does not change any more. */
export class MysqlAudit {
  /** @internal */ readonly sql: ReturnType<typeof statements>;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
  ) {
    this.sql = statements(names);
  }

  /** Its number is asked for on the same connection, in a transaction: nobody else's insert is between. */
  begin({ action, actor, filter }: NewAction): Promise<string> {
    return this.database.connection('admin').transaction(async (tx) => {
      await tx.run(this.sql.begin.bind(action, actor, filter));
      return String((await tx.run(this.sql.number.bind())).rows[0]?.[0]);
    });
  }

  /** In the transaction of what is counted. @throws ActionEnded */
  async count(tx: SqlExecutor, audit: string, done: number, skipped: number): Promise<void> {
    const { affected } = await tx.run(this.sql.count.bind(done, skipped, BigInt(audit)));
    if (affected === 0) throw new ActionEnded();
  }

  async end(audit: string, outcome: AuditOutcome, error: string | null): Promise<boolean> {
    return (await this.run(this.sql.end.bind(outcome, error, BigInt(audit)))).affected > 0;
  }

  async list(before: string | null, limit: number): Promise<AuditRow[]> {
    const { rows } = await this.run(
      before === null ? this.sql.list.bind(limit) : this.sql.listBefore.bind(BigInt(before), limit),
    );
    return rows.map(readAudit);
  }

  /** @returns how many rows were deleted */
  async clean(age: number, limit: number): Promise<number> {
    return (await this.run(this.sql.clean.bind(age * 1_000, limit))).affected;
  }

  run(sql: Sql): Promise<SqlResult> {
    return retried(() => this.database.connection('admin').run(sql));
  }
}

function statements({ audit }: TableNames) {
  const columns = 'audit_id, action, actor, filter, begun_at, touched_at, ended_at, done, skipped, outcome, error';
  return {
    begin: statement('begin action', `insert into ${audit} (action, actor, filter) values (?, ?, ?)`),
    number: statement('number of action', 'select last_insert_id()'),
    count: statement(
      'count action',
      `update ${audit} set done = done + ?, skipped = skipped + ?, touched_at = utc_timestamp(6)
      where audit_id = ? and ended_at is null`,
    ),
    end: statement(
      'end action',
      `update ${audit} set outcome = ?, error = ?, ended_at = utc_timestamp(6), touched_at = utc_timestamp(6)
      where audit_id = ? and ended_at is null`,
    ),
    list: statement('actions', `select ${columns} from ${audit} order by audit_id desc limit ?`),
    listBefore: statement(
      'actions before',
      `select ${columns} from ${audit} where audit_id < ? order by audit_id desc limit ?`,
    ),
    clean: statement(
      'clean actions',
      `delete from ${audit} where begun_at < utc_timestamp(6) - interval ? microsecond order by begun_at limit ?`,
    ),
  };
}

function readAudit(row: readonly unknown[]): AuditRow {
  const [id, action, actor, filter, begunAt, touchedAt, endedAt, done, skipped, outcome, error] = row;
  return {
    id: String(id),
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
