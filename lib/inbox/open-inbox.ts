import type { OutboxDialect } from '../data-layers/drivers/outbox-sql.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { OutboxService } from '../enqueue/outbox.service.js';
import type { SqlConnection, SqlDatabase } from '../store/executor.js';
import { statement } from '../store/sql.js';
import { CurrentTransaction } from '../transaction/current-transaction.js';
import type { DataLayer } from '../transaction/data-layer.js';
import { TransactionScope } from '../transaction/transaction-scope.js';
import { takeClaims } from './claims.js';
import { cleanerOf, type InboxCleaner } from './cleaner.js';
import { resolveInbox, type InboxOptions, type ResolvedInboxOptions } from './inbox.options.js';
import { Inbox } from './inbox.js';
import { inboxStatements, inboxTables, type InboxTableOptions, type InboxTables } from './tables.js';

export interface OpenedInbox {
  readonly options: ResolvedInboxOptions;
  readonly service: Inbox;
  readonly cleaner: InboxCleaner;
  readonly database: SqlDatabase;
}

/** Of the few statements that are no part of an effect. */
const OWN_CONNECTION = {
  ...({ buckets: 1, ordering: 'none', coordination: 'buckets', onPublished: 'archive', errorHistory: 0 } as const),
  ...{ statementTimeout: 30_000, idleWithLocks: 30_000, connectTimeout: 10_000, closeIdleAfter: 5_000 },
};

/** @param isOwn the data layer is not that of the outbox: nothing is said by its options */
export async function openInbox(
  given: InboxOptions,
  dataLayer: DataLayer,
  outbox: OutboxService | undefined,
  isOwn: boolean,
): Promise<OpenedInbox> {
  const beside = isOwn ? undefined : outbox?.runtime.options;
  const options = resolveInbox(given);
  await dataLayer.open();
  dataLayer.watchTransactions();
  const { dialect } = dataLayer;
  const { setup = beside?.database.setup ?? 'check', ...asked } = options.database;
  const place = {
    prefix: asked.prefix ?? beside?.database.prefix ?? 'outbox_',
    schema: asked.schema ?? beside?.database.schema ?? dataLayer.defaultSchema,
  };
  const tables = inboxTables(dialect, place);
  const database = dataLayer.openDatabase({ ...OWN_CONNECTION, ...place, pooler: beside?.database.pooler });
  const connection = (): SqlConnection => database.connection('admin');
  const currentTransaction = options.currentTransaction ?? beside?.currentTransaction;
  const current = new CurrentTransaction(dataLayer, TransactionScope.of(dataLayer), currentTransaction);
  try {
    if (setup !== 'none') await prepare(connection(), dialect, tables, place, setup);
  } catch (error) {
    await database.close();
    throw error;
  }
  const service = new Inbox({ options, current, tables, take: takeClaims(dialect, tables), outbox, connection });
  return { options, service, cleaner: cleanerOf(dialect, tables, options.retention, connection), database };
}

async function prepare(
  db: SqlConnection,
  dialect: OutboxDialect,
  tables: InboxTables,
  place: InboxTableOptions,
  setup: 'check' | 'create',
): Promise<void> {
  const problem = await missing(db, tables);
  if (problem === undefined) return;
  if (setup === 'create') {
    const made = inboxStatements(dialect, place).up;
    // Processes that start at once make them at once, and PostgreSQL lets one of them fail.
    for (const sql of made.map((text) => statement(undefined, text).bind())) await db.run(sql).catch(() => db.run(sql));
    return;
  }
  const text = `The tables of the inbox are missing: ${Object.values(tables).join(', ')}.`;
  const hint =
    "Run the migrations: inboxMigrations() for TypeORM, or the text of inboxSql(), with this schema and prefix; in development, database: { setup: 'create' }.";
  throw new OutboxConfigurationError('SCHEMA_MISSING', text, { hint, cause: problem });
}

/** @returns what the server says of them; `undefined`: they are there */
async function missing(db: SqlConnection, { inbox, latest }: InboxTables): Promise<unknown> {
  try {
    await db.run(
      statement(undefined, `select consumer, message_id, received_at, duplicates from ${inbox} limit 0`).bind(),
    );
    await db.run(statement(undefined, `select consumer, message_key, place, seen_at from ${latest} limit 0`).bind());
    return undefined;
  } catch (error) {
    if (!MISSING.has((error as { errno?: unknown }).errno ?? (error as { code?: unknown }).code)) throw error;
    return error;
  }
}
/** A table, a column, a schema, a database: of PostgreSQL, and of MySQL. */
const MISSING: ReadonlySet<unknown> = new Set(['42P01', '42703', '3F000', 1146, 1054, 1049]);
