import { OutboxError } from '../../outbox.errors.js';
import { literal, tableNames, type SchemaDefinition } from '../../store/names.js';
import type { SchemaSession } from '../../store/schema/session.js';

type Query = SchemaSession['query'];

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

/** By state. Tables that are gone already have none. */
async function countUnpublished(
  query: Query,
  dialect: 'postgres' | 'mysql',
  definition: SchemaDefinition,
): Promise<Record<string, number>> {
  const names = tableNames(definition, dialect === 'postgres' ? '"' : '`');
  const { schema, prefix } = definition;
  const [row] =
    dialect === 'postgres'
      ? await query(
          `select count(*) from (values (${literal(names.ready)}), (${literal(names.parked)})) t(name) where pg_catalog.to_regclass(t.name) is not null`,
        )
      : await query(
          'select count(*) from information_schema.tables where table_schema = coalesce(?, database()) and table_name in (?, ?)',
          [schema ?? null, `${prefix}ready`, `${prefix}parked`],
        );
  if (Number(row?.[0]) < 2) return {};
  // Nobody writes into them from here on until they are dropped, in a transaction. MySQL drops each table by itself.
  if (dialect === 'postgres')
    await query(`do $outbox$ begin lock table ${names.ready}, ${names.parked} in access exclusive mode; end $outbox$`);
  const [ready] = await query(`select count(*) from (select 1 from ${names.ready} limit ${MOST}) r`);
  const parked = await query(
    `select state, count(*) from (select state from ${names.parked} limit ${MOST}) p group by state order by state`,
  );
  return {
    ready: Number(ready?.[0]),
    ...Object.fromEntries(parked.map(([state, count]) => [STATES[Number(state) - 1], Number(count)])),
  };
}
