import type { DataSource, MigrationInterface, QueryRunner } from 'typeorm';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import { connectionSchema, dialectOf } from './dialect.js';
import { oneAtATime } from '../../store/mysql/schema/lock.js';
import { patiently } from '../../store/mysql/schema/patience.js';
import { mysqlSchemaDown, mysqlSchemaUp, mysqlVersion2, mysqlVersion3 } from '../../store/mysql/schema/schema.js';
import { checkNames, SCHEMA_VERSION, tableNames, type SchemaDefinition, type SchemaScript } from '../../store/names.js';
import { runBeside, storedVersion, type IndexBeside } from '../../store/postgres/schema/online.js';
import type { OpenBeside } from '../../store/schema-session.js';
import { refuseUnpublished, tellCopies } from './unpublished.js';
import { buildBeside, postgresSchema, postgresVersion2, postgresVersion3 } from '../../store/postgres/schema/schema.js';

export type OutboxDialect = 'postgres' | 'mysql';

/** The same as in the module's options; the defaults are the same too. */
export interface OutboxSchemaOptions {
  /** Default `outbox_`. */
  prefix?: string;
  /** PostgreSQL schema (made when missing), MySQL database. Default: the connection's. */
  schema?: string;
  /** Default 32. */
  buckets?: number;
  /** Default `key`. */
  ordering?: 'key' | 'strict' | 'none' | 'global';
  /** Default `buckets`. */
  coordination?: 'buckets' | 'rowLock' | 'leader';
  /**
   * Whether a new archive is made in partitions by published time, for `OutboxPartitionMaintainer`. One that is there stays as it
   * is. Default false.
   */
  partitionedArchive?: boolean;
}

/** Column `bucket` is a smallint, and the hash has two bytes. */
const MAX_BUCKETS = 32_767;

type ScriptOf = Readonly<Record<OutboxDialect, (definition: SchemaDefinition) => SchemaScript>>;
/** All of this release, for tables that are not there yet, or of an earlier version. */
const TABLES: ScriptOf = {
  postgres: postgresSchema,
  mysql: (definition) => ({ up: mysqlSchemaUp(definition), down: mysqlSchemaDown(definition) }),
};
interface Version {
  readonly name: string;
  /** TypeORM reads the last 13 characters of a name as a time. */
  readonly time: string;
  /** Of the tables, once it has run. The first makes those of this release. */
  readonly version: number;
  readonly script: ScriptOf;
  /** PostgreSQL: what `up` would build while others wait. */
  readonly beside?: (definition: SchemaDefinition) => IndexBeside;
}
const UPGRADES: readonly Version[] = [
  {
    name: 'OutboxVersion2',
    time: '1795478400000',
    version: 2,
    script: { postgres: postgresVersion2, mysql: mysqlVersion2 },
    beside: (definition) => buildBeside('dedup', definition),
  },
  {
    name: 'OutboxVersion3',
    time: '1795737600000',
    version: 3,
    script: { postgres: postgresVersion3, mysql: mysqlVersion3 },
    beside: (definition) => buildBeside('parked', definition),
  },
];
/** In the order in which they came. */
const MIGRATIONS: readonly Version[] = [
  { name: 'OutboxTables', time: '1795219200000', version: SCHEMA_VERSION, script: TABLES },
  ...UPGRADES,
];

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
  const { dialect, dropUnpublished = false } = options;
  if (typeof dropUnpublished !== 'boolean') throw invalid('dropUnpublished', dropUnpublished, 'true or false');
  const definition = definitionOf(options);
  return MIGRATIONS.map((migration) => {
    const run = async (runner: QueryRunner, way: 'up' | 'down'): Promise<void> => {
      const dataSource = dataSourceOf(runner);
      const schema = definition.schema ?? connectionSchema(dataSource);
      const server = dialect ?? dialectOf(dataSource);
      const tables = { ...definition, schema };
      if (server === 'postgres' && (await changeBeside(runner, tables, migration, way))) return;
      const first =
        way === 'down' && migration.script === TABLES && !dropUnpublished
          ? () => refuseUnpublished((sql) => runner.query(sql), server, tables)
          : undefined;
      const query = (sql: string): Promise<Record<string, unknown>[]> => runner.query(sql);
      await runAll(runner, server, tables, migration.script[server](tables)[way], first).catch(
        async (error: unknown) => {
          throw way === 'down' && server === 'mysql' ? await tellCopies(error, query, tables) : error;
        },
      );
    };
    // The middle keeps several outboxes of one DataSource apart.
    const name = `${migration.name}_${definition.schema ?? ''}_${definition.prefix}${migration.time}`;
    return class implements MigrationInterface {
      readonly name = name;
      async up(runner: QueryRunner): Promise<void> {
        await run(runner, 'up');
      }
      async down(runner: QueryRunner): Promise<void> {
        await run(runner, 'down');
      }
    };
  });
}

/**
 * PostgreSQL: tables of another version are changed while others use them. What a migrator's transaction makes is nobody's
 * yet, and has this release's version.
 * @returns whether there is nothing left to do
 */
async function changeBeside(
  runner: QueryRunner,
  tables: SchemaDefinition,
  { version, script }: Version,
  way: 'up' | 'down',
): Promise<boolean> {
  const stored = await storedVersion(runner, tableNames(tables, '"'));
  if (stored === undefined) return false;
  const openBeside = besideOf(runner);
  if (way === 'down') {
    if (script === TABLES || stored !== version) return false;
    await runBeside(runner, openBeside, [], script.postgres(tables).down);
    return true;
  }
  const steps = UPGRADES.filter((upgrade) => upgrade.version > stored && upgrade.version <= version);
  for (const step of steps) {
    const indexes = step.beside === undefined ? [] : [step.beside(tables)];
    await runBeside(runner, openBeside, indexes, step.script.postgres(tables).up);
  }
  return steps.length > 0 && script !== TABLES;
}

/**
 * On PostgreSQL the lock is the script's first statement.
 * @param first is awaited before it, under the lock of the others
 */
function runAll(
  runner: QueryRunner,
  dialect: OutboxDialect,
  tables: { schema?: string | undefined; prefix: string },
  script: readonly string[],
  first: () => Promise<void> = async () => undefined,
): Promise<void> {
  const work = async (run: (sql: string) => Promise<unknown>): Promise<void> => {
    await first();
    for (const text of script) await run(text);
  };
  if (dialect === 'postgres') return work((sql) => runner.query(sql));
  const ask = async (sql: string, values: readonly unknown[]): Promise<unknown> => {
    const [row] = (await runner.query(sql, [...values])) as readonly Record<string, unknown>[];
    return Object.values(row ?? {})[0];
  };
  return oneAtATime(ask, tables, () => patiently(runner, besideOf(runner), work));
}

/**
 * The same as text, for other migration tools. Without a schema in the options names are not qualified: run it with the
 * right default schema, and let plain SQL writers have the same.
 * @returns `up` makes the tables, or upgrades those of an earlier version, and may run again; `down` drops them; `back` leads
 *   to those of the version before, with what is in them
 */
export function outboxSql(
  dialect: OutboxDialect,
  options: OutboxSchemaOptions = {},
): { up: string; down: string; back: string } {
  const script = TABLES[dialect];
  if (script === undefined) throw invalid('dialect', dialect, `one of ${Object.keys(TABLES).join(', ')}`);
  const definition = definitionOf(options);
  const { up, down } = script(definition);
  const [latest] = UPGRADES.slice(-1) as [Version];
  return { up: asText(up), down: asText(down), back: asText(latest.script[dialect](definition).down) };
}

function definitionOf(options: OutboxSchemaOptions): SchemaDefinition {
  const { prefix = 'outbox_', schema, buckets = 32, ordering = 'key', coordination = 'buckets' } = options;
  const { partitionedArchive = false } = options;
  checkNames({ prefix, schema });
  if (!Number.isInteger(buckets) || buckets < 1 || buckets > MAX_BUCKETS) {
    throw invalid('buckets', buckets, `an integer from 1 to ${MAX_BUCKETS}`);
  }
  checkOneOf('ordering', ordering, ['key', 'strict', 'none', 'global']);
  checkOneOf('coordination', coordination, ['buckets', 'rowLock', 'leader']);
  if (typeof partitionedArchive !== 'boolean') throw invalid('partitionedArchive', partitionedArchive, 'true or false');
  return { prefix, schema, buckets, ordering, coordination, partitionedArchive };
}

function checkOneOf(path: string, value: string, allowed: readonly string[]): void {
  if (!allowed.includes(value)) throw invalid(path, value, `one of ${allowed.join(', ')}`);
}
function invalid(path: string, value: unknown, allowed: string): OutboxConfigurationError {
  return new OutboxConfigurationError('INVALID_OPTIONS', `${path} is ${JSON.stringify(value)}.`, {
    hint: `Use ${allowed}.`,
  });
}

/** One more session of its DataSource, with the primary. */
function besideOf(runner: QueryRunner): OpenBeside {
  return () => dataSourceOf(runner).createQueryRunner('master');
}

/** TypeORM 1.x calls it `dataSource`, 0.3 `connection`. */
function dataSourceOf(runner: QueryRunner): DataSource {
  return (runner as Partial<QueryRunner>).dataSource ?? runner.connection;
}

function asText(statements: readonly string[]): string {
  return statements.map((text) => `${text};\n`).join('\n');
}
