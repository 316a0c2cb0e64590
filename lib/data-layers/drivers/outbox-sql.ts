import { OutboxConfigurationError } from '../../outbox.errors.js';
import { mysqlSchemaDown, mysqlSchemaUp } from '../../store/mysql/schema/schema.js';
import { checkNames, type SchemaDefinition, type SchemaScript } from '../../store/names.js';
import { postgresSchema } from '../../store/postgres/schema/schema.js';

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

export type ScriptOf = Readonly<Record<OutboxDialect, (definition: SchemaDefinition) => SchemaScript>>;
/** All of this release, for tables that are not there yet. */
export const TABLES: ScriptOf = {
  postgres: postgresSchema,
  mysql: (definition) => ({ up: mysqlSchemaUp(definition), down: mysqlSchemaDown(definition) }),
};
/**
 * The tables as text, for any migration tool. Without a schema in the options names are not qualified: run it with the
 * right default schema, and let plain SQL writers have the same.
 * @returns `up` makes what is missing of the tables, and may run again; `down` drops them
 */
export function outboxSql(dialect: OutboxDialect, options: OutboxSchemaOptions = {}): { up: string; down: string } {
  const script = TABLES[dialect];
  if (script === undefined) throw invalid('dialect', dialect, `one of ${Object.keys(TABLES).join(', ')}`);
  const { up, down } = script(definitionOf(options));
  return { up: asText(up), down: asText(down) };
}

export function definitionOf(options: OutboxSchemaOptions): SchemaDefinition {
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
export function invalid(path: string, value: unknown, allowed: string): OutboxConfigurationError {
  return new OutboxConfigurationError('INVALID_OPTIONS', `${path} is ${JSON.stringify(value)}.`, {
    hint: `Use ${allowed}.`,
  });
}

export function asText(statements: readonly string[]): string {
  return statements.map((text) => `${text};\n`).join('\n');
}
