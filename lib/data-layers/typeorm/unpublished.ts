import { OutboxError } from '../../outbox.errors.js';
import { databaseOf } from '../../store/mysql/schema/schema.js';
import { literal, tableNames, type SchemaDefinition } from '../../store/names.js';

type Rows = readonly Record<string, unknown>[];
type Query = (sql: string) => Promise<Rows>;

/** Counts stop here: what matters is that there are some. */
const MOST = 100_000;
const STATES = ['scheduled', 'waiting', 'blocked', 'dead'] as const;

/**
 * Before tables are dropped: a revert must not delete messages that nobody has published.
 * @throws OutboxError `TABLES_NOT_EMPTY`
 */
export async function refuseUnpublished(
  query: Query,
  dialect: 'postgres' | 'mysql',
  definition: SchemaDefinition,
): Promise<void> {
  const counts = await countUnpublished(query, dialect, definition);
  const given = Object.entries(counts).filter(([, count]) => count > 0);
  if (given.length === 0) return;
  const { ready } = tableNames(definition, dialect === 'postgres' ? '"' : '`');
  const list = given.map(([state, count]) => `${count >= MOST ? `${MOST} or more` : count} ${state}`).join(', ');
  throw new OutboxError(
    'TABLES_NOT_EMPTY',
    `Reverting this migration drops the outbox tables (${ready} and others), and messages in them are not published: ${list}.`,
    {
      hint: 'Let a relay publish them, and requeue or discard what is dead. To drop them with the tables, give outboxMigrations({ dropUnpublished: true }) to the DataSource that reverts.',
    },
  );
}

/** `ER_DUP_ENTRY`, `ER_DUP_ENTRY_WITH_KEY_NAME`. */
const TWICE: ReadonlySet<unknown> = new Set([1062, 1586]);

/**
 * MariaDB and MySQL: the parked table of versions before 3 has one row for each message and transport. Nothing has changed when
 * its index cannot be made.
 * @returns what to tell instead of the error of the way back; `TABLES_NOT_EMPTY`
 */
export async function tellCopies(error: unknown, query: Query, definition: SchemaDefinition): Promise<unknown> {
  if (!TWICE.has((error as { errno?: unknown }).errno)) return error;
  const { parked } = tableNames(definition, '`');
  const copies = `select id from ${parked} group by id, transport having count(*) > 1`;
  const [row] = await query(`select count(*) as n, min(id) as id from (${copies} limit ${MOST}) c`);
  const count = Number(row?.['n']);
  if (count === 0) return error; // they went meanwhile: again is all there is to do
  const messages = count === 1 ? '1 message waits' : `${count >= MOST ? `${MOST} or more` : count} messages wait`;
  return new OutboxError(
    'TABLES_NOT_EMPTY',
    `The index on id of ${parked} is unique before version 3 of the tables, and ${messages} there in several copies, such as ${String(row?.['id'])}. Nothing was changed.`,
    {
      hint: `Let a relay publish them, and requeue or discard what is dead; then revert again. They are: ${copies}`,
      cause: error,
    },
  );
}

/** By state. Tables that are gone already have none. */
async function countUnpublished(
  query: Query,
  dialect: 'postgres' | 'mysql',
  definition: SchemaDefinition,
): Promise<Record<string, number>> {
  const names = tableNames(definition, dialect === 'postgres' ? '"' : '`');
  const there = dialect === 'postgres' ? thereOnPostgres : thereOnMysql;
  const [row] = await query(there(names.ready, names.parked, definition));
  if (Number(row?.['n']) < 2) return {};
  // Nobody writes into them from here on until they are dropped, in a transaction. MySQL drops each table by itself.
  if (dialect === 'postgres')
    await query(`do $outbox$ begin lock table ${names.ready}, ${names.parked} in access exclusive mode; end $outbox$`);
  const [ready] = await query(`select count(*) as n from (select 1 from ${names.ready} limit ${MOST}) r`);
  const parked = await query(
    `select state as s, count(*) as n from (select state from ${names.parked} limit ${MOST}) p group by state order by state`,
  );
  return {
    ready: Number(ready?.['n']),
    ...Object.fromEntries(parked.map(({ s, n }) => [STATES[Number(s) - 1], Number(n)])),
  };
}

const thereOnPostgres = (ready: string, parked: string): string =>
  `select count(*) as n from (values (${literal(ready)}), (${literal(parked)})) t(name) where pg_catalog.to_regclass(t.name) is not null`;

function thereOnMysql(_ready: string, _parked: string, definition: SchemaDefinition): string {
  const { prefix } = definition;
  return `select count(*) as n from information_schema.tables where table_schema = ${databaseOf(definition)} and table_name in ('${prefix}ready', '${prefix}parked')`;
}
