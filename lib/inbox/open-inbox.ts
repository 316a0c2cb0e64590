import type { OutboxDialect } from '../data-layers/drivers/outbox-sql.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { OutboxService } from '../enqueue/outbox.service.js';
import { isMarked } from '../nest/enqueue-only.js';
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
  const resolved = resolveInbox(given);
  await dataLayer.open();
  dataLayer.watchTransactions();
  const { dialect } = dataLayer;
  const { setup = beside?.database.setup ?? 'check', ...asked } = resolved.database;
  const declared = {
    prefix: asked.prefix ?? beside?.database.prefix ?? 'outbox_',
    schema: asked.schema ?? beside?.database.schema,
    pooler: beside?.database.pooler,
  };
  const options = { ...resolved, database: declared };
  const place = { ...declared, schema: declared.schema ?? dataLayer.defaultSchema };
  const tables = inboxTables(dialect, place);
  const database = dataLayer.openDatabase({ ...OWN_CONNECTION, ...place });
  const connection = (): SqlConnection => database.connection('admin');
  const currentTransaction = options.currentTransaction ?? beside?.currentTransaction;
  const current = new CurrentTransaction(dataLayer, TransactionScope.of(dataLayer), currentTransaction);
  try {
    // The command line makes no tables but by its migrate, and looks at those of the outbox alone.
    if (setup !== 'none' && !isMarked()) await prepare(connection(), { dialect, tables, place, declared, setup });
  } catch (error) {
    await database.close();
    throw error;
  }
  const take = takeClaims(dialect, tables);
  const service = new Inbox({ options, dataLayer, current, tables, take, outbox, connection });
  return { options, service, cleaner: cleanerOf(dialect, tables, options.retention, connection), database };
}

interface Preparation {
  readonly dialect: OutboxDialect;
  readonly tables: InboxTables;
  readonly place: InboxTableOptions;
  readonly declared: InboxTableOptions;
  readonly setup: 'check' | 'create';
}

async function prepare(db: SqlConnection, { dialect, tables, place, declared, setup }: Preparation): Promise<void> {
  const missing = await missingOf(db, tables);
  if (missing.length === 0) return;
  if (setup === 'create') {
    const made = inboxStatements(dialect, place).up;
    // Processes that start at once make them at once, and PostgreSQL lets one of them fail.
    for (const sql of made.map((text) => statement(undefined, text).bind())) await db.run(sql).catch(() => db.run(sql));
    return;
  }
  const names = missing.map(({ table }) => table).join(', ');
  const text = `Tables of the inbox are missing, or have other columns: ${names}.`;
  const { prefix, schema } = declared;
  const at = [prefix === 'outbox_' ? '' : ` --prefix ${prefix}`, schema === undefined ? '' : ` --schema ${schema}`];
  const hint = `Run \`npx nestjs-outbox migrate upgrade --inbox${at.join('')}\`, or inboxMigrations() for TypeORM; in development, database: { setup: 'create' }.`;
  throw new OutboxConfigurationError('SCHEMA_MISSING', text, { hint, cause: missing[0]?.error });
}

/** With what the server says of each. */
async function missingOf(
  db: SqlConnection,
  { inbox, latest }: InboxTables,
): Promise<{ readonly table: string; readonly error: unknown }[]> {
  const missing = [];
  const columns = { [inbox]: 'message_id, received_at, duplicates', [latest]: 'message_key, place, seen_at' };
  for (const [table, named] of Object.entries(columns))
    try {
      await db.run(statement(undefined, `select consumer, ${named} from ${table} limit 0`).bind());
    } catch (error) {
      if (!MISSING.has((error as { errno?: unknown }).errno ?? (error as { code?: unknown }).code)) throw error;
      missing.push({ table, error });
    }
  return missing;
}
/** A table, a column, a schema, a database: of PostgreSQL, and of MySQL. */
const MISSING: ReadonlySet<unknown> = new Set(['42P01', '42703', '3F000', 1146, 1054, 1049]);
