import type { DataSource, MigrationInterface, QueryRunner } from 'typeorm';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import { connectionSchema, databaseKind } from '../open-store.js';
import { mysqlSchemaDown, mysqlSchemaUp } from './mysql-schema.js';
import { checkNames, type SchemaDefinition, type SchemaScript } from './names.js';
import { postgresSchema } from './postgres-schema.js';

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

const SCRIPTS: Readonly<Record<OutboxDialect, (definition: SchemaDefinition) => SchemaScript>> = {
  postgres: postgresSchema,
  mysql: (definition) => ({ up: mysqlSchemaUp(definition), down: mysqlSchemaDown(definition) }),
};

/**
 * Migration classes for the `migrations` of a DataSource, to be run and reverted by TypeORM's own migrator. Reverting
 * the first one drops the tables and the messages in them, pending ones too.
 */
export function outboxMigrations(
  options: OutboxSchemaOptions & { /** Default: what the DataSource is. */ dialect?: OutboxDialect } = {},
): (new () => MigrationInterface)[] {
  const { dialect } = options;
  const definition = definitionOf(options);
  const scriptFor = (runner: QueryRunner): SchemaScript => {
    const dataSource = dataSourceOf(runner);
    const schema = definition.schema ?? connectionSchema(dataSource);
    return SCRIPTS[dialect ?? databaseKind(dataSource).dialect]({ ...definition, schema });
  };
  // TypeORM reads the last 13 characters as a time; the rest keeps several outboxes of one DataSource apart.
  const name = `OutboxTables_${definition.schema ?? ''}_${definition.prefix}1795219200000`;
  class OutboxTables1795219200000 implements MigrationInterface {
    readonly name = name;
    async up(runner: QueryRunner): Promise<void> {
      for (const text of scriptFor(runner).up) await runner.query(text);
    }
    async down(runner: QueryRunner): Promise<void> {
      for (const text of scriptFor(runner).down) await runner.query(text);
    }
  }
  return [OutboxTables1795219200000];
}

/**
 * The same as text, for other migration tools. Without a schema in the options names are not qualified: run it with the
 * right default schema, and let plain SQL writers have the same.
 */
export function outboxSql(dialect: OutboxDialect, options: OutboxSchemaOptions = {}): { up: string; down: string } {
  const script = SCRIPTS[dialect];
  if (script === undefined) throw invalid('dialect', dialect, `one of ${Object.keys(SCRIPTS).join(', ')}`);
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
