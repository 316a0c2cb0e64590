import type { SqlConnection, SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import {
  readNamedPause,
  readPause,
  scopeColumns,
  type NamedPause,
  type Pause,
  type PauseAction,
  type PauseReport,
  type PauseStore,
} from '../../pauses/pause-store.js';
import type { Sql } from '../../sql.js';
import type { PostgresAudit } from '../ops/audit.js';
import { statement } from '../statement.js';

const SINCE = 'extract(epoch from p.since) operator(pg_catalog.*) 1000';

/** All pauses as one JSON text; null without one. */
export const pausesJson = ({ pauses }: TableNames): string =>
  `(select json_agg(json_build_array(p.transport, p.topic, p.key, ${SINCE}, p.actor, p.reason))::text from ${pauses} p)`;

export const parsePauses = (json: unknown): Pause[] =>
  typeof json === 'string' ? (JSON.parse(json) as unknown[][]).map(readPause) : [];

export class PostgresPauses implements PauseStore {
  /** @internal */ readonly sql: ReturnType<typeof statements>;

  constructor(
    readonly connection: () => SqlConnection,
    names: TableNames,
    readonly audits: PostgresAudit,
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
    return (await this.connection().run(this.sql.list.bind())).rows.map(readNamedPause);
  }

  /** @internal */ change(action: 'pause' | 'resume', { actor, filter }: PauseAction, sql: Sql): Promise<PauseReport> {
    return this.connection().transaction(async (tx: SqlExecutor) => {
      const { begin, count, end } = this.audits.sql;
      const audit = (await tx.run(begin.bind(action, actor, filter))).rows[0]?.[0] as string;
      const { affected } = await tx.run(sql);
      await tx.run(count.bind(affected, 0, audit));
      await tx.run(end.bind('done', null, audit));
      return { audit, changed: affected > 0 };
    });
  }
}

function statements({ pauses, transports }: TableNames) {
  return {
    pause: statement(
      undefined,
      `insert into ${pauses} (transport, topic, key, actor, reason) values (?, ?, ?, ?, ?) on conflict do nothing`,
    ),
    resume: statement(undefined, `delete from ${pauses} where transport = ? and topic = ? and key = ?`),
    list: statement(
      undefined,
      `select p.transport, p.topic, p.key, ${SINCE}, p.actor, p.reason, t.name from ${pauses} p left join ${transports} t on t.id = p.transport
         order by p.since, p.transport, p.topic, p.key`,
    ),
  };
}
