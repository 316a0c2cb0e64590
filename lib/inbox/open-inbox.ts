import type { OutboxDialect } from '../data-layers/drivers/outbox-sql.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { OutboxService } from '../enqueue/outbox.service.js';
import { isMarked } from '../nest/enqueue-only.js';
import type { SqlConnection } from '../store/executor.js';
import { statement } from '../store/sql.js';
import { CurrentTransaction } from '../transaction/current-transaction.js';
import type { DataLayer } from '../transaction/data-layer.js';
import { TransactionScope } from '../transaction/transaction-scope.js';
import { takeClaims } from './claims.js';
import { resolveInbox, type InboxOptions } from './inbox.options.js';
import { OpenedInbox } from './lifecycle.js';
import { inboxStatements, inboxTables, isMissing, lookAt, type InboxTableOptions, type InboxTables } from './tables.js';

/** Of the few statements that are no part of an effect. */
const OWN_CONNECTION = {
  ...({ buckets: 1, ordering: 'none', coordination: 'buckets', onPublished: 'archive', errorHistory: 0 } as const),
  ...{ statementTimeout: 30_000, idleWithLocks: 30_000, connectTimeout: 10_000, closeIdleAfter: 5_000 },
};

/** @param isOwn the data layer is not that of the outbox: nothing is said by its options */
export async function openInbox(
  name: string,
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
  // The command line makes no tables but by its migrate, and looks at those of the outbox alone.
  if (setup !== 'none' && !isMarked())
    await prepare(connection(), dialect, place, setup === 'create' ? null : declared).catch(async (error: unknown) => {
      await database.close();
      throw error;
    });
  const currentTransaction = options.currentTransaction ?? beside?.currentTransaction;
  const current = new CurrentTransaction(dataLayer, TransactionScope.of(dataLayer), currentTransaction);
  const [take, counts] = [takeClaims(dialect, tables), new Map()];
  return new OpenedInbox({ name, options, dataLayer, current, tables, take, counts, outbox, connection }, database);
}

/** @param declared for the hint; `null`: what is missing is made */
async function prepare(
  db: SqlConnection,
  dialect: OutboxDialect,
  place: InboxTableOptions,
  declared: InboxTableOptions | null,
): Promise<void> {
  const run = (text: string): Promise<unknown> => db.run(statement(undefined, text).bind());
  const tables = inboxTables(dialect, place);
  try {
    await run(lookAt(tables));
  } catch (cause) {
    if (!isMissing(cause)) throw cause;
    if (declared !== null) throw missing(tables, declared, cause as Error);
    // Processes that start at once make them at once, and PostgreSQL lets one of them fail.
    for (const text of inboxStatements(dialect, place).up) await run(text).catch(() => run(text));
  }
}

function missing(tables: InboxTables, { prefix, schema }: InboxTableOptions, cause: Error): OutboxConfigurationError {
  const at = [prefix === 'outbox_' ? '' : ` --prefix ${prefix}`, schema === undefined ? '' : ` --schema ${schema}`];
  const hint = `Run \`npx nestjs-outbox migrate upgrade --inbox${at.join('')}\`, or inboxMigrations() for TypeORM; in development, database: { setup: 'create' }.`;
  const text = `Tables of the inbox are missing, or have other columns: ${tables.inbox}, ${tables.latest}. ${cause.message}.`;
  return new OutboxConfigurationError('SCHEMA_MISSING', text, { hint, cause });
}
