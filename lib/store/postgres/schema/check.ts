import { OutboxConfigurationError } from '../../../outbox.errors.js';
import type { SqlExecutor } from '../../executor.js';
import type { SchemaSettings } from '../../outbox-store.js';
import { checkMade, mendBy } from '../../schema/is-as-wanted.js';
import { TABLE_NAMES, type StoreSettings, type TableNames } from '../../names.js';
import { statement } from '../statement.js';
import { BLOCKED, WAITING } from '../../parked-state.js';
import { compareColumns, readColumns } from './check-columns.js';
import { compareObjects, compareSequence } from './check-objects.js';

/**
 * Compares what is there with what this version needs; what differs is thrown as one error.
 * @param way what to do about tables that are not of this version
 */
export async function checkSchema(
  db: SqlExecutor,
  names: TableNames,
  store: StoreSettings,
  wanted: SchemaSettings,
  way: string,
): Promise<void> {
  const found = await readColumns(db, names);
  if (found.has('meta')) await checkMeta(db, names, wanted); // an earlier version has fewer tables
  const missing = TABLE_NAMES.filter((table) => !found.has(table));
  if (missing.length > 0) {
    const list = missing.map((table) => names[table]).join(', ');
    const elsewhere = found.size === 0 ? await schemasWith(db, `${store.prefix}meta`) : [];
    const hint = elsewhere.map((schema) => `The schema "${schema}" has such tables: set database.schema to it. Or: `);
    throw new OutboxConfigurationError('SCHEMA_MISSING', `Tables are missing: ${list}.`, { hint: hint.join('') + way });
  }
  const definition = { ...wanted, schema: store.schema, prefix: store.prefix };
  const wrong = [
    ...(await compareSequence(db, names)), // others take their numbers from it
    ...compareColumns(found, names, definition),
    ...(await compareObjects(db, names, definition)),
  ];
  if (wrong.length === 0) return;
  throw new OutboxConfigurationError(
    'SCHEMA_MISMATCH',
    `The tables are not what this release needs: ${wrong.join('; ')}.`,
    { hint: mendBy(way) },
  );
}

/** One at most, so that it can be named: of several none is more likely than the others. */
async function schemasWith(db: SqlExecutor, table: string): Promise<string[]> {
  const sql = 'select table_schema from information_schema.tables where table_name = ? limit 2';
  const { rows } = await db.run(statement(undefined, sql).bind(table));
  return rows.length === 1 ? [String((rows as readonly (readonly [string])[])[0]?.[0])] : [];
}

/** What the tables were made with. */
export async function checkMeta(db: SqlExecutor, names: TableNames, wanted: SchemaSettings): Promise<void> {
  const { rows } = await db.run(statement(undefined, `select name, value from ${names.meta}`).bind());
  const stored = new Map(rows as readonly (readonly [string, string])[]);
  checkMade(stored, wanted, names.meta, (different) => wayOut(different, wanted, stored, names));
}

/** What is fixed with the tables decides. */
function wayOut(
  different: readonly string[],
  wanted: SchemaSettings,
  stored: ReadonlyMap<string, string>,
  names: TableNames,
): string | undefined {
  if (different.some((name) => name !== 'ordering' && name !== 'coordination')) return undefined;
  const { ordering, coordination } = wanted;
  const updates = Object.entries({ ordering, coordination })
    .filter(([name]) => different.includes(name))
    .map(([name, value]) => `update ${names.meta} set value = '${value}' where name = '${name}'`);
  const isReordered = different.includes('ordering');
  if (isReordered && ordering === 'none') updates.push(unblock(names));
  const stop = isReordered
    ? `${drain(ordering, stored)}, stop every process that enqueues or publishes, run the up of outboxSql() with the new settings (it may run again)`
    : 'stop every relay, let it drain';
  return `${stop}, and run: ${updates.join('; ')}`;
}

/** Where nothing blocks nobody goes on with what is blocked: behind a dead message it is, however long the relays drain. */
function unblock({ parked }: TableNames): string {
  const isBlocked = `case state when ${BLOCKED} then`;
  return `update ${parked} set state = ${isBlocked} ${WAITING} else state end, due_at = ${isBlocked} now() else due_at end, blocking = false where blocking`;
}

/** With a global order every message has bucket 0, with others its key's: what is left would stay where nobody looks for it. */
function drain(ordering: unknown, stored: ReadonlyMap<string, string>): string {
  const moves = [ordering, stored.get('ordering')].includes('global');
  return moves
    ? 'let the relays drain until no message is left, dead and scheduled ones included'
    : 'let the relays drain';
}
