import { asText, invalid, type OutboxDialect } from '../data-layers/drivers/outbox-sql.js';
import type { MigrationInterface } from '../data-layers/typeorm/index.js';
import { checkNames, createSchema, tableNames } from '../store/names.js';

/** The same as `database` of the module's options; the defaults are the same too. */
export interface InboxTableOptions {
  /** Default `outbox_`. */
  readonly prefix?: string | undefined;
  /** PostgreSQL schema (made when missing), MySQL database. Default: the connection's. */
  readonly schema?: string | undefined;
}
/** Qualified and quoted. */
export interface InboxTables {
  /** One row for each message and consumer. */
  readonly inbox: string;
  /** One row for each key and consumer that handles only the latest. */
  readonly latest: string;
}

/** In characters: what the columns hold. */
export const MOST = { consumer: 100, id: 200, key: 255 } as const;

export function inboxTables(dialect: OutboxDialect, { prefix = 'outbox_', schema }: InboxTableOptions): InboxTables {
  checkNames({ prefix, schema });
  const { object } = tableNames({ prefix, schema }, dialect === 'postgres' ? '"' : '`');
  return { inbox: object('inbox'), latest: object('inbox_latest') };
}

/** Fails where one of them, or a column, is missing. */
export const lookAt = ({ inbox, latest }: InboxTables): string =>
  `select i.consumer, message_id, received_at, duplicates, l.consumer, message_key, place, seen_at from ${inbox} i cross join ${latest} l limit 0`;
/** A table, a column, a schema, a database: of PostgreSQL, and of MySQL. */
const MISSING: ReadonlySet<unknown> = new Set(['42P01', '42703', '3F000', 1146, 1054, 1049]);
export const isMissing = (error: unknown): boolean =>
  MISSING.has((error as { errno?: unknown }).errno ?? (error as { code?: unknown }).code);

/**
 * The two tables of an inbox as text, for any migration tool.
 * @returns `up` makes what is missing, and may run again; `down` drops them
 * @throws OutboxConfigurationError `INVALID_OPTIONS`
 */
export function inboxSql(dialect: OutboxDialect, options: InboxTableOptions = {}): { up: string; down: string } {
  const { up, down } = inboxStatements(dialect, options);
  return { up: asText(up), down: asText(down) };
}

/** Each is run on its own. */
export function inboxStatements(
  dialect: OutboxDialect,
  options: InboxTableOptions = {},
): Record<'up' | 'down', string[]> {
  const make = UP[dialect];
  if (make === undefined) throw invalid('dialect', dialect, "'postgres' or 'mysql'");
  const { inbox, latest } = inboxTables(dialect, options);
  const { index } = tableNames({ prefix: options.prefix ?? 'outbox_' }, '"');
  return {
    up: [...(dialect === 'postgres' ? createSchema(options.schema) : []), ...make(inbox, latest, index)],
    down: [`drop table if exists ${latest}`, `drop table if exists ${inbox}`],
  };
}

type Make = (inbox: string, latest: string, index: (suffix: string) => string) => string[];
const UP: Readonly<Record<OutboxDialect, Make>> = {
  postgres: (inbox, latest, index) => [
    `create table if not exists ${inbox} (
  consumer text not null,
  message_id text collate "C" not null,
  received_at timestamp with time zone not null default clock_timestamp(),
  duplicates integer not null default 0,
  primary key (consumer, message_id)
)`,
    `create index if not exists ${index('inbox_by_age')} on ${inbox} (received_at)`,
    `create table if not exists ${latest} (
  consumer text not null,
  message_key text collate "C" not null,
  place numeric(39) not null,
  seen_at timestamp with time zone not null default clock_timestamp(),
  primary key (consumer, message_key)
)`,
    `create index if not exists ${index('inbox_latest_by_age')} on ${latest} (seen_at)`,
  ],
  mysql: (inbox, latest) => [
    `create table if not exists ${inbox} (
  consumer varchar(${MOST.consumer}) character set ascii collate ascii_bin not null,
  message_id varchar(${MOST.id}) character set utf8mb4 collate utf8mb4_bin not null,
  received_at datetime(6) not null,
  duplicates int not null default 0,
  primary key (consumer, message_id),
  key by_age (received_at)
) engine = InnoDB`,
    `create table if not exists ${latest} (
  consumer varchar(${MOST.consumer}) character set ascii collate ascii_bin not null,
  message_key varbinary(${MOST.key * 4}) not null,
  place decimal(39) null,
  seen_at datetime(6) not null,
  primary key (consumer, message_key),
  key by_age (seen_at)
) engine = InnoDB`,
  ],
};

/** For the `migrations` of a DataSource, beside those of the outbox. Reverting it forgets what was handled. */
export function inboxMigrations(options: InboxTableOptions = {}): (new () => MigrationInterface)[] {
  const { prefix = 'outbox_', schema = '' } = options;
  const run =
    (way: 'up' | 'down') =>
    async (runner: Parameters<MigrationInterface['up']>[0]): Promise<void> => {
      const dialect = runner.connection.options.type === 'postgres' ? 'postgres' : 'mysql';
      for (const text of inboxStatements(dialect, options)[way]) await runner.query(text);
    };
  return [
    class {
      /** TypeORM reads the last 13 characters of a name as a time. */
      readonly name = `InboxTables_${schema}_${prefix}1796000000000`;
      readonly up = run('up');
      readonly down = run('down');
    },
  ];
}
