import type { OutboxDialect } from '../data-layers/drivers/outbox-sql.js';
import type { OwnSession, Step } from '../data-layers/tables/index.js';
import { inboxMigrations, inboxStatements, inboxTables, lookAt, type InboxTableOptions } from './tables.js';

/** Of the command line: what leads the tables to a version, and back, in a session of its own. */
export function inboxSteps(options: InboxTableOptions): Step[] {
  return inboxMigrations(options).map((Migration, index) => ({
    name: String(new Migration().name),
    version: index + 1,
    async run({ session, dialect, schema }, way) {
      // Whoever comes to a table meanwhile waits behind; PostgreSQL has a limit of its own.
      if (dialect === 'mysql') await session.query('set session lock_wait_timeout = 1');
      // Names are qualified: the path of the session may lead elsewhere.
      for (const text of inboxStatements(dialect, { ...options, schema: options.schema ?? schema })[way])
        await session.query(text);
    },
  }));
}

/** @returns fails where one of the tables is missing */
export async function inboxVersion(
  { query }: Pick<OwnSession, 'query'>,
  dialect: OutboxDialect,
  at: InboxTableOptions,
): Promise<number> {
  await query(lookAt(inboxTables(dialect, at)));
  return 1;
}

export { inboxSql, inboxStatements } from './tables.js';
