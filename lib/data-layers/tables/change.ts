import { oneAtATime } from '../../store/mysql/schema/lock.js';
import { patiently } from '../../store/mysql/schema/patience.js';
import { tableNames, type SchemaDefinition } from '../../store/names.js';
import { runBeside } from '../../store/postgres/schema/online.js';
import { oneAtATime as postgresTurn } from '../../store/postgres/schema/schema.js';
import type { OpenBeside, SchemaSession } from '../../store/schema/session.js';
import { TABLES, type OutboxDialect, type ScriptOf } from '../drivers/outbox-sql.js';
import { refuseUnpublished } from './unpublished.js';

/** From one version of the tables to the next, and back, while others use them: what is in them stays. */
export interface Upgrade {
  readonly version: number;
  /** Ends the name of its migration: TypeORM reads the last 13 characters of a name as a time. */
  readonly time: string;
  /** Each statement may run again. The version itself is written behind them. */
  readonly script: ScriptOf;
}
export type Way = 'up' | 'down';

/** Where a step runs. */
export interface Where {
  readonly session: SchemaSession;
  readonly dialect: OutboxDialect;
  /** The connection's. */
  readonly schema: string | undefined;
  /** PostgreSQL: for a session within a transaction of others. */
  readonly beside?: OpenBeside;
}
export interface Change extends Where {
  readonly tables: SchemaDefinition;
}

type Run = (sql: string) => Promise<unknown>;

export function makeTables(change: Change): Promise<void> {
  return inTurn(change, (run) => runAll(run, TABLES[change.dialect](change.tables).up));
}

export function dropTables(change: Change, dropUnpublished: boolean): Promise<void> {
  const { session, dialect, tables } = change;
  return inTurn(change, async (run) => {
    if (!dropUnpublished) await refuseUnpublished((sql, values) => session.query(sql, values), dialect, tables);
    await runAll(run, TABLES[dialect](tables).down);
  });
}

export async function changeVersion(change: Change, upgrade: Upgrade, way: Way): Promise<void> {
  const { session, dialect, tables, beside } = change;
  const { meta } = tableNames(tables, dialect === 'postgres' ? '"' : '`');
  const [from, to] = way === 'up' ? [upgrade.version - 1, upgrade.version] : [upgrade.version, upgrade.version - 1];
  const isThere = async (): Promise<boolean> => {
    const [row] = await session.query(`select value from ${meta} where name = 'version'`);
    return Number(row?.[0]) === from;
  };
  const statements = [
    ...upgrade.script[dialect](tables)[way],
    `update ${meta} set value = '${to}' where name = 'version' and value = '${from}'`,
  ];
  if (dialect === 'mysql')
    return inTurn(change, async (run) => {
      await run('commit'); // the migrator's transaction reads what was there when it began; a change of a table ends it too
      if (await isThere()) await runAll(run, statements);
    });
  if (await isThere()) await runBeside(session, { lock: postgresTurn(tables), statements }, beside);
}

/** PostgreSQL: the lock is the script's first statement. */
function inTurn({ session, dialect, tables }: Change, work: (run: Run) => Promise<void>): Promise<void> {
  if (dialect === 'postgres') return work((sql) => session.query(sql));
  const ask = async (sql: string, values: readonly unknown[]): Promise<unknown> =>
    (await session.query(sql, [...values]))[0]?.[0];
  return oneAtATime(ask, tables, () => patiently(session, work));
}

async function runAll(run: Run, statements: readonly string[]): Promise<void> {
  for (const text of statements) await run(text);
}
