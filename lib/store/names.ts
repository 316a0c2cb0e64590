import { misconfigured } from '../outbox.errors.js';

/** Version of the tables; grows with every migration. */
export const SCHEMA_VERSION = 1;
/** How a bucket is computed from a key: stored with the schema, so that no two formulas ever work on one table. */
export const HASH_VERSION = 'sha256/16be';

/** What a store is told at construction. `schema` is resolved: the connection's own when the options name none. */
export interface StoreSettings extends Omit<SchemaDefinition, 'partitionedArchive'> {
  readonly onPublished: 'delete' | 'archive';
  /** Failures that a parked row keeps. */
  readonly errorHistory: number;
  /** PostgreSQL: whether a pooler is in front of it. With the address of PostgreSQL itself, what listens goes past it. Else it is found out. */
  readonly pooler?: boolean | string | undefined;
  /** PostgreSQL: how the relay hears of commits in other processes; `undefined`: as it finds out. */
  readonly wakeUp?: 'notify' | 'poll' | undefined;
  /** Told what an operator should know, once. */
  readonly warn?: ((text: string) => void) | undefined;
  /** Milliseconds after which a statement of the relay is cancelled by the server. */
  readonly statementTimeout: number;
  /**
   * Milliseconds that a session which holds row locks may be silent while its messages are published; then the server ends
   * it, and they are anybody's.
   */
  readonly idleWithLocks: number;
  /** Milliseconds until an attempt to connect is given up. */
  readonly connectTimeout: number;
  /** Milliseconds after which a connection that nobody uses is closed. Absent: never, as a relay uses each of them again soon. */
  readonly closeIdleAfter?: number | undefined;
}

/** What the tables are made from; `create` and the migrations use the same. */
export interface SchemaDefinition {
  /** PostgreSQL schema, MySQL database; undefined leaves names unqualified (SQL as text only). */
  readonly schema?: string | undefined;
  readonly prefix: string;
  readonly buckets: number;
  readonly ordering: 'key' | 'strict' | 'none' | 'global';
  readonly coordination: 'buckets' | 'rowLock' | 'leader';
  /** Whether a new archive is made in partitions. One that is there stays as it is. */
  readonly partitionedArchive?: boolean | undefined;
}
/** Statements in order; each is run on its own. `up` may run twice. */
export interface SchemaScript {
  readonly up: readonly string[];
  readonly down: readonly string[];
}

const TABLES = [
  'ready',
  'parked',
  'archive',
  'dedup',
  'leases',
  'instances',
  'meta',
  'transports',
  'audit',
  'pauses',
] as const;
export type TableName = (typeof TABLES)[number];
export const TABLE_NAMES: readonly TableName[] = TABLES;

/** Qualified and quoted, ready to stand in SQL. */
export interface TableNames extends Readonly<Record<TableName, string>> {
  /** PostgreSQL, `ordering: 'strict'`: where keyed messages are until their transaction commits. */
  readonly staged: string;
  /** MySQL, `ordering: 'strict'`: what keyed messages lock until their transaction ends. */
  readonly keyLocks: string;
  /** The view over ready, parked and archive. */
  readonly messages: string;
  /** Any other object of the outbox in the same schema (function, sequence), qualified and quoted. */
  object(suffix: string): string;
  /** An index or constraint, quoted but never qualified. */
  index(suffix: string): string;
}

const IDENTIFIER = /^[a-z_][a-z0-9_]*$/;
/** PostgreSQL cuts names at 63 bytes; the longest of ours is `<prefix>parked_parked_id_seq`. */
const MAX_IDENTIFIER = 63;
export const MAX_PREFIX = MAX_IDENTIFIER - 'parked_parked_id_seq'.length;

/** Refuses what could not stand in every database as it is; quoting alone would accept names that nobody can type again. */
export function checkNames(names: { schema?: string | undefined; prefix: string }): void {
  checkIdentifier('database.prefix', names.prefix, MAX_PREFIX);
  if (names.schema !== undefined) checkIdentifier('database.schema', names.schema, MAX_IDENTIFIER);
}

function checkIdentifier(path: string, value: unknown, maxLength: number): void {
  if (typeof value === 'string' && value.length <= maxLength && IDENTIFIER.test(value)) return;
  const hint = `Use lower-case letters, digits and _, not starting with a digit, at most ${maxLength} characters.`;
  misconfigured(`${path} is ${JSON.stringify(value)?.slice(0, 100)}.`, hint);
}

export function quoteWith(quote: '"' | '`', name: string): string {
  return quote + name.replaceAll(quote, quote + quote) + quote;
}

/** Text in SQL of PostgreSQL. */
export function literal(text: string): string {
  return `'${text.replaceAll(`'`, `''`)}'`;
}

/** @param quote `"` for PostgreSQL, a backtick for MySQL. */
export function tableNames(names: { schema?: string | undefined; prefix: string }, quote: '"' | '`'): TableNames {
  const qualifier = names.schema === undefined ? '' : `${quoteWith(quote, names.schema)}.`;
  const object = (suffix: string): string => qualifier + quoteWith(quote, names.prefix + suffix);
  const tables = Object.fromEntries(TABLES.map((table) => [table, object(table)])) as Record<TableName, string>;
  return {
    ...tables,
    staged: object('staged'),
    keyLocks: object('key_locks'),
    messages: object('messages'),
    object,
    index: (suffix) => quoteWith(quote, names.prefix + suffix),
  };
}

/** Rows of the meta table of a new schema: compared at every start. */
export function metaRows(
  definition: Omit<SchemaDefinition, 'schema' | 'prefix'>,
): readonly (readonly [string, string])[] {
  return [
    ['version', String(SCHEMA_VERSION)],
    ['buckets', String(definition.buckets)],
    ['hash', HASH_VERSION],
    ['ordering', definition.ordering],
    ['coordination', definition.coordination],
  ];
}

/** PostgreSQL. `create schema if not exists` asks for the privilege even when there is nothing to create. */
export function createSchema(schema: string | undefined): string[] {
  if (schema === undefined) return [];
  return [
    `do $outbox$ begin if pg_catalog.to_regnamespace(${literal(quoteWith('"', schema))}) is null then ` +
      `create schema ${quoteWith('"', schema)}; end if; end $outbox$`,
  ];
}
