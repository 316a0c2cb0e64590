import type { OutboxDialect } from '../data-layers/drivers/outbox-sql.js';
import { inboxMigrations, inboxStatements, inboxTables, type InboxTableOptions } from './tables.js';

/** Of the command line: what leads the tables to a version, and back, in a session of its own. */
export function inboxSteps(options: InboxTableOptions) {
  return inboxMigrations(options).map((Migration, index) => ({
    name: new Migration().name,
    version: index + 1,
    async run({ session, dialect, schema }: Where, way: 'up' | 'down'): Promise<void> {
      // Whoever comes to a table meanwhile waits behind; PostgreSQL has a limit of its own.
      if (dialect === 'mysql') await session.query('set session lock_wait_timeout = 1');
      // Names are qualified: the path of the session may lead elsewhere.
      for (const text of inboxStatements(dialect, { ...options, schema: options.schema ?? schema })[way])
        await session.query(text);
    },
  }));
}

/** @returns fails where one of the tables is missing */
export async function inboxVersion({ query }: Session, dialect: OutboxDialect, at: InboxTableOptions): Promise<number> {
  const { inbox, latest } = inboxTables(dialect, at);
  await query(`select 1 from ${inbox}, ${latest} limit 0`);
  return 1;
}

export { inboxSql, inboxStatements } from './tables.js';

interface Session {
  query(sql: string): Promise<unknown>;
}
interface Where {
  readonly session: Session;
  readonly dialect: OutboxDialect;
  /** The connection's. */
  readonly schema: string | undefined;
}
