import type { SqlDatabase } from '../../executor.js';
import type { TableNames } from '../../names.js';
import {
  readNamedPause,
  scopeColumns,
  type NamedPause,
  type PauseAction,
  type PauseReport,
  type PauseStore,
} from '../../pauses/pause-store.js';
import { statement, type Sql } from '../../sql.js';
import type { MysqlAudit } from '../ops/audit.js';
import { inTransaction, retried } from '../retry.js';

/** Six columns, of a table `p`: {@link readPause} knows the order. Times are milliseconds since the epoch. */
export const PAUSE_COLUMNS =
  "p.transport, convert(p.topic using utf8mb4), convert(p.`key` using utf8mb4), timestampdiff(microsecond, '1970-01-01 00:00:00', p.since) div 1000, p.actor, p.reason";

export class MysqlPauses implements PauseStore {
  /** @internal */ readonly sql: ReturnType<typeof statements>;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
    readonly audits: MysqlAudit,
  ) {
    this.sql = statements(names);
  }

  pause(action: PauseAction & { readonly reason: string }): Promise<PauseReport> {
    const { scope, actor, reason } = action;
    return this.change('pause', action, this.sql.pause.bind(...scopeColumns(scope), actor, reason));
  }

  resume(action: PauseAction): Promise<PauseReport> {
    return this.change('resume', action, this.sql.resume.bind(...scopeColumns(action.scope)));
  }

  async list(): Promise<NamedPause[]> {
    const answer = await retried(() => this.database.connection('admin').run(this.sql.list.bind()));
    return answer.rows.map(readNamedPause);
  }

  /** @internal */ change(action: 'pause' | 'resume', { actor, filter }: PauseAction, sql: Sql): Promise<PauseReport> {
    return inTransaction(this.database.connection('admin'), async (tx) => {
      const { begin, number, count, end } = this.audits.sql;
      await tx.run(begin.bind(action, actor, filter));
      const audit = String((await tx.run(number.bind())).rows[0]?.[0]);
      const { affected } = await tx.run(sql);
      await tx.run(count.bind(affected, 0, BigInt(audit)));
      await tx.run(end.bind('done', null, BigInt(audit)));
      return { audit, changed: affected > 0 };
    });
  }
}

function statements({ pauses, transports }: TableNames) {
  return {
    // Nothing but a row that is there already can be wrong with it: its texts were checked.
    pause: statement(
      'pause',
      `insert ignore into ${pauses} (transport, topic, \`key\`, actor, reason) values (?, ?, ?, ?, ?)`,
    ),
    resume: statement('resume', `delete from ${pauses} where transport = ? and topic = ? and \`key\` = ?`),
    list: statement(
      'pauses',
      `select ${PAUSE_COLUMNS}, convert(t.name using utf8mb4) from ${pauses} p left join ${transports} t on t.id = p.transport
      order by p.since, p.transport, p.topic, p.\`key\``,
    ),
  };
}
