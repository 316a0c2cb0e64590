import type { DataSource, MigrationInterface, QueryRunner } from 'typeorm';
import { connectionSchema, dialectOf } from './dialect.js';
import { oneAtATime } from '../../store/mysql/schema/lock.js';
import { patiently } from '../../store/mysql/schema/patience.js';
import { tableNames, type SchemaDefinition } from '../../store/names.js';
import { runBeside } from '../../store/postgres/schema/online.js';
import { oneAtATime as postgresTurn } from '../../store/postgres/schema/schema.js';
import type { OpenBeside } from '../../store/schema/session.js';
import {
  definitionOf,
  invalid,
  TABLES,
  type OutboxDialect,
  type OutboxSchemaOptions,
  type ScriptOf,
} from '../drivers/outbox-sql.js';
import { refuseUnpublished } from './unpublished.js';

/** From one version of the tables to the next, and back, while others use them: what is in them stays. */
export interface Upgrade {
  readonly version: number;
  /** Ends the name of its migration: TypeORM reads the last 13 characters of a name as a time. */
  readonly time: string;
  /** Each statement may run again. The version itself is written behind them. */
  readonly script: ScriptOf;
}
/** In the order of their versions, and behind the first migration: none yet. */
const UPGRADES: readonly Upgrade[] = [];

export interface OutboxMigrationOptions extends OutboxSchemaOptions {
  /** Default: what the DataSource is. */
  dialect?: OutboxDialect;
  /** Whether reverting drops messages that are not published, dead ones too. Default false: it is refused. */
  dropUnpublished?: boolean;
}

/**
 * Migration classes for the `migrations` of a DataSource, to be run and reverted by TypeORM's own migrator. Reverting
 * the first one drops the tables; while messages in them are not published it is refused (`TABLES_NOT_EMPTY`).
 */
export function outboxMigrations(options: OutboxMigrationOptions = {}): (new () => MigrationInterface)[] {
  return migrationsOf(options, UPGRADES);
}

/** The first makes the tables of the last version; one that finds its version there has nothing to do. */
export function migrationsOf(
  options: OutboxMigrationOptions,
  upgrades: readonly Upgrade[],
): (new () => MigrationInterface)[] {
  const { dialect, dropUnpublished = false } = options;
  if (typeof dropUnpublished !== 'boolean') throw invalid('dropUnpublished', dropUnpublished, 'true or false');
  const definition = definitionOf(options);
  const first: Step = {
    name: 'OutboxTables',
    time: '1795219200000',
    run: (change, way) => (way === 'up' ? makeTables(change) : dropTables(change, dropUnpublished)),
  };
  const later = upgrades.map((upgrade): Step => ({
    name: `OutboxVersion${upgrade.version}`,
    time: upgrade.time,
    run: (change, way) => changeVersion(change, upgrade, way),
  }));
  return [first, ...later].map(({ name, time, run }) => {
    const migrate = async (runner: QueryRunner, way: Way): Promise<void> => {
      const dataSource = dataSourceOf(runner);
      const tables = { ...definition, schema: definition.schema ?? connectionSchema(dataSource) };
      await run({ runner, dialect: dialect ?? dialectOf(dataSource), tables }, way);
    };
    return class implements MigrationInterface {
      /** The middle keeps several outboxes of one DataSource apart. */
      readonly name = `${name}_${definition.schema ?? ''}_${definition.prefix}${time}`;
      async up(runner: QueryRunner): Promise<void> {
        await migrate(runner, 'up');
      }
      async down(runner: QueryRunner): Promise<void> {
        await migrate(runner, 'down');
      }
    };
  });
}

type Way = 'up' | 'down';
interface Step {
  readonly name: string;
  readonly time: string;
  run(change: Change, way: Way): Promise<void>;
}
/** Of the tables of one outbox. */
interface Change {
  readonly runner: QueryRunner;
  readonly dialect: OutboxDialect;
  readonly tables: SchemaDefinition;
}
type Run = (sql: string) => Promise<unknown>;

function makeTables(change: Change): Promise<void> {
  return inTurn(change, (run) => runAll(run, TABLES[change.dialect](change.tables).up));
}

function dropTables(change: Change, dropUnpublished: boolean): Promise<void> {
  const { runner, dialect, tables } = change;
  return inTurn(change, async (run) => {
    if (!dropUnpublished) await refuseUnpublished((sql, values) => runner.query(sql, values), dialect, tables);
    await runAll(run, TABLES[dialect](tables).down);
  });
}

async function changeVersion(change: Change, upgrade: Upgrade, way: Way): Promise<void> {
  const { runner, dialect, tables } = change;
  const { meta } = tableNames(tables, dialect === 'postgres' ? '"' : '`');
  const [from, to] = way === 'up' ? [upgrade.version - 1, upgrade.version] : [upgrade.version, upgrade.version - 1];
  const isThere = async (): Promise<boolean> => {
    const [row] = await runner.query(`select value from ${meta} where name = 'version'`);
    return Number(row?.value) === from;
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
  if (!(await isThere())) return;
  const beside: OpenBeside = () => dataSourceOf(runner).createQueryRunner('master');
  await runBeside(runner, beside, { lock: postgresTurn(tables), statements });
}

/** PostgreSQL: the lock is the script's first statement. */
function inTurn({ runner, dialect, tables }: Change, work: (run: Run) => Promise<void>): Promise<void> {
  if (dialect === 'postgres') return work((sql) => runner.query(sql));
  const ask = async (sql: string, values: readonly unknown[]): Promise<unknown> => {
    const [row] = (await runner.query(sql, [...values])) as readonly Record<string, unknown>[];
    return Object.values(row ?? {})[0];
  };
  return oneAtATime(ask, tables, () => patiently(runner, work));
}

async function runAll(run: Run, statements: readonly string[]): Promise<void> {
  for (const text of statements) await run(text);
}

/** TypeORM 1.x calls it `dataSource`, 0.3 `connection`. */
function dataSourceOf(runner: QueryRunner): DataSource {
  return (runner as Partial<QueryRunner>).dataSource ?? runner.connection;
}
