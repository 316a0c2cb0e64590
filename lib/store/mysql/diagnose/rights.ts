import type { RightFacts } from '../../diagnose/diagnose-store.js';
import type { SqlExecutor } from '../../executor.js';
import { TABLE_NAMES, literal, type TableName, type TableNames } from '../../names.js';
import { rowsOf } from '../../rows-of.js';
import { statement } from '../../sql.js';

type Right = 'select' | 'insert' | 'update' | 'delete';

/** A column of each table that may be given a value by whoever may insert or update at all. */
const COLUMN: Readonly<Record<TableName, string>> = {
  ready: 'topic',
  parked: 'topic',
  archive: 'topic',
  audit: 'action',
  pauses: 'reason',
  dedup: 'id',
  leases: 'transport',
  instances: 'info',
  meta: 'value',
  transports: 'name',
};
const ALL: readonly Right[] = ['select', 'insert', 'update', 'delete'];
const TO_ENQUEUE: Readonly<Partial<Record<TableName, readonly Right[]>>> = {
  meta: ['select'],
  transports: ['select'],
  leases: ['select'],
  instances: ['select'],
  pauses: ['select'],
  ready: ['insert'],
  parked: ['insert'],
  dedup: ['select', 'insert'],
};

/** `ER_TABLEACCESS_DENIED_ERROR`, `ER_COLUMNACCESS_DENIED_ERROR`. */
const DENIED: ReadonlySet<unknown> = new Set([1142, 1143]);

/**
 * Rights come by roles, patterns and columns, which no table shows together. The server compares them when it explains a
 * statement, and does not run it.
 */
export async function missingRights(
  db: SqlExecutor,
  names: TableNames,
  work: 'relay' | 'enqueue',
): Promise<RightFacts> {
  const missing: string[] = [];
  for (const table of TABLE_NAMES) {
    const rights = work === 'relay' ? ALL : (TO_ENQUEUE[table] ?? []);
    for (const right of rights)
      if (await isDenied(db, explained(names[table], COLUMN[table], right)))
        missing.push(`${right} on ${names[table]}`);
  }
  const [row] = await rowsOf(db, 'select current_user()');
  const login = String(row?.[0]);
  const host = login.lastIndexOf('@');
  return { login, grantee: `${literal(login.slice(0, host))}@${literal(login.slice(host + 1))}`, missing };
}

function explained(table: string, column: string, right: Right): string {
  if (right === 'select') return `explain select 1 from ${table} limit 1`;
  if (right === 'insert') return `explain insert into ${table} (${column}) values ('0')`;
  if (right === 'update') return `explain update ${table} set ${column} = '0' limit 1`;
  return `explain delete from ${table} limit 1`;
}

async function isDenied(db: SqlExecutor, text: string): Promise<boolean> {
  try {
    await db.run(statement(undefined, text).bind());
    return false;
  } catch (error) {
    if (DENIED.has((error as { errno?: unknown }).errno)) return true;
    throw error;
  }
}
