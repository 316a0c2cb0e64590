import type { DataSource, MigrationInterface, QueryRunner } from 'typeorm';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import { connectionSchema, databaseKind } from '../open-store.js';
import { oneAtATime } from './mysql-lock.js';
import { mysqlSchemaDown, mysqlSchemaUp, mysqlVersion2 } from './mysql-schema.js';
import { checkNames, type SchemaDefinition, type SchemaScript } from './names.js';
import { refuseUnpublished } from './unpublished.js';
import { postgresSchema, postgresVersion2 } from './postgres-schema.js';

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
}

/** Column `bucket` is a smallint, and the hash has two bytes. */
const MAX_BUCKETS = 32_767;

type ScriptOf = Readonly<Record<OutboxDialect, (definition: SchemaDefinition) => SchemaScript>>;
/** All of this release, for tables that are not there yet, or of an earlier version. */
const TABLES: ScriptOf = {
  postgres: postgresSchema,
  mysql: (definition) => ({ up: mysqlSchemaUp(definition), down: mysqlSchemaDown(definition) }),
};
/** In the order in which they came; TypeORM reads the last 13 characters of a name as a time. */
const MIGRATIONS: readonly (readonly [name: string, time: string, script: ScriptOf])[] = [
  ['OutboxTables', '1795219200000', TABLES],
  ['OutboxVersion2', '1795478400000', { postgres: postgresVersion2, mysql: mysqlVersion2 }],
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
  return MIGRATIONS.map(([kind, time, scripts]) => {
    const run = (runner: QueryRunner, way: 'up' | 'down'): Promise<void> => {
      const dataSource = dataSourceOf(runner);
      const schema = definition.schema ?? connectionSchema(dataSource);
      const server = dialect ?? databaseKind(dataSource).dialect;
      const tables = { ...definition, schema };
      const first =
        way === 'down' && scripts === TABLES && !dropUnpublished
          ? () => refuseUnpublished((sql) => runner.query(sql), server, tables)
          : undefined;
      return runAll(runner, server, tables, scripts[server](tables)[way], first);
    };
    // The middle keeps several outboxes of one DataSource apart.
    const name = `${kind}_${definition.schema ?? ''}_${definition.prefix}${time}`;
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
  const work = async (): Promise<void> => {
    await first();
    for (const text of script) await runner.query(text);
  };
  if (dialect === 'postgres') return work();
  const ask = async (sql: string, values: readonly unknown[]): Promise<unknown> => {
    const [row] = (await runner.query(sql, [...values])) as readonly Record<string, unknown>[];
    return Object.values(row ?? {})[0];
  };
  return oneAtATime(ask, tables, work);
}

/**
 * The same as text, for other migration tools. Without a schema in the options names are not qualified: run it with the
 * right default schema, and let plain SQL writers have the same.
 */
export function outboxSql(dialect: OutboxDialect, options: OutboxSchemaOptions = {}): { up: string; down: string } {
  const script = TABLES[dialect];
  if (script === undefined) throw invalid('dialect', dialect, `one of ${Object.keys(TABLES).join(', ')}`);
  const { up, down } = script(definitionOf(options));
  return { up: asText(up), down: asText(down) };
}

function definitionOf(options: OutboxSchemaOptions): SchemaDefinition {
  const { prefix = 'outbox_', schema, buckets = 32, ordering = 'key', coordination = 'buckets' } = options;
  checkNames({ prefix, schema });
  if (!Number.isInteger(buckets) || buckets < 1 || buckets > MAX_BUCKETS) {
    throw invalid('buckets', buckets, `an integer from 1 to ${MAX_BUCKETS}`);
  }
  checkOneOf('ordering', ordering, ['key', 'strict', 'none', 'global']);
  checkOneOf('coordination', coordination, ['buckets', 'rowLock', 'leader']);
  return { prefix, schema, buckets, ordering, coordination };
}

function checkOneOf(path: string, value: string, allowed: readonly string[]): void {
  if (!allowed.includes(value)) throw invalid(path, value, `one of ${allowed.join(', ')}`);
}
function invalid(path: string, value: unknown, allowed: string): OutboxConfigurationError {
  return new OutboxConfigurationError('INVALID_OPTIONS', `${path} is ${JSON.stringify(value)}.`, {
    hint: `Use ${allowed}.`,
  });
}

/** TypeORM 1.x calls it `dataSource`, 0.3 `connection`. */
function dataSourceOf(runner: QueryRunner): DataSource {
  return (runner as Partial<QueryRunner>).dataSource ?? runner.connection;
}

function asText(statements: readonly string[]): string {
  return statements.map((text) => `${text};\n`).join('\n');
}
