import {
  readNamedPause,
  scopeColumns,
  type NamedPause,
  type PauseAction,
  type PauseReport,
  type PauseStore,
} from '../pauses/pause-store.js';
import type { Sql, Statement } from '../sql.js';
import type { AuditTable } from './audit.js';
import type { OperatorDatabase } from './operator-database.js';

export interface PauseSql {
  /** Transport, topic, key, actor, reason. One that is there already stays. */
  readonly pause: Statement;
  /** Transport, topic, key. */
  readonly resume: Statement;
  /** The oldest first, as {@link readNamedPause} reads them. */
  readonly list: Statement;
}

export class PauseTable implements PauseStore {
  constructor(
    private readonly database: OperatorDatabase,
    private readonly sql: PauseSql,
    private readonly audits: AuditTable,
  ) {}

  pause(action: PauseAction & { readonly reason: string }): Promise<PauseReport> {
    const { scope, actor, reason } = action;
    return this.change('pause', action, this.sql.pause.bind(...scopeColumns(scope), actor, reason));
  }

  resume(action: PauseAction): Promise<PauseReport> {
    return this.change('resume', action, this.sql.resume.bind(...scopeColumns(action.scope)));
  }

  async list(): Promise<NamedPause[]> {
    return (await this.database.run(this.sql.list.bind())).rows.map(readNamedPause);
  }

  private change(action: 'pause' | 'resume', { actor, filter }: PauseAction, sql: Sql): Promise<PauseReport> {
    return this.database.transaction(async (tx) => {
      const audit = await this.audits.beginIn(tx, { action, actor, filter });
      const { affected } = await tx.run(sql);
      await this.audits.count(tx, audit, affected, 0);
      await this.audits.endIn(tx, audit);
      return { audit, changed: affected > 0 };
    });
  }
}
