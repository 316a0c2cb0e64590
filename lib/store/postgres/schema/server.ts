import { unsuitable } from '../../unsuitable.js';
import type { SqlExecutor } from '../../executor.js';
import { literal, TABLE_NAMES, type TableNames } from '../../names.js';
import { rowsOf } from '../statement.js';

/** 64-bit transaction ids (`xid8`) and `pg_current_snapshot()`. */
const OLDEST_SERVER = 130_000;
const WARNINGS: Readonly<Record<string, string>> = {
  fsync: 'fsync is off: a crash of the server loses committed messages. Set it to on for the server.',
  full_page_writes:
    'full_page_writes is off: a crash of the server can damage the tables. Set it to on for the server.',
  synchronous_commit:
    'synchronous_commit is off for new sessions: a crash of the server loses the last commits, with their messages. None of those was published: the relay waits for the disk. To keep them, set it to on for the server, the database or the role.',
  create:
    'Everybody may create objects in the schema of the outbox, and so put functions in front of those that your own SQL calls. Run: revoke create on schema … from public.',
  rows: 'Row security hides rows of the outbox from this user: they are neither published nor counted. Give the user the attribute bypassrls, or disable row security for the tables of the outbox.',
  replica:
    "The database is a read-only replica: nothing can be published from it. Point the data layer, or the master of TypeORM's replication option, at the primary.",
};

/** @throws OutboxConfigurationError when the server, as it is, cannot hold an outbox */
export async function checkServer(db: SqlExecutor): Promise<void> {
  const sql = `select current_setting('server_version_num'), current_setting('server_version'),
      pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on', current_setting('server_encoding')`;
  const [row] = await rowsOf(db, sql);
  const [number, version, replica, readOnly, encoding] = row ?? [];
  if (!(Number(number) >= OLDEST_SERVER)) {
    throw unsuitable(`The database is PostgreSQL ${String(version)}.`, 'The outbox needs PostgreSQL 13 or later.');
  }
  if (replica === 't') {
    throw unsuitable(
      'The database is a read-only replica (pg_is_in_recovery).',
      "Point the data layer, or the master of TypeORM's replication option, at the primary.",
    );
  }
  if (readOnly === 't') {
    throw unsuitable(
      'Transactions are read-only here (default_transaction_read_only is on).',
      'Find out who set it for the server, the database or the role, and why: some hosts do so when the disk is full.',
    );
  }
  // Another one has no place for every key and error text; SQL_ASCII takes bytes that are no text, which come back as others.
  if (encoding !== 'UTF8') {
    throw unsuitable(
      `The database keeps its texts in ${String(encoding)}, not in UTF8 (server_encoding).`,
      `Dump it, and restore it into one made with: create database … template template0 encoding 'UTF8'.`,
    );
  }
}

/** Settings that weaken a promise, in words. */
export async function serverWarnings(db: SqlExecutor, names: TableNames): Promise<string[]> {
  const tables = TABLE_NAMES.map((table) => `(${literal(names[table])})`).join(', ');
  const rows = await rowsOf(
    db,
    `select name from pg_settings where name in ('fsync', 'full_page_writes', 'synchronous_commit') and reset_val = 'off'
         union all select 'replica' where pg_is_in_recovery()
         union all select 'create' from (values (${literal(names.ready)})) t(name) join pg_class c on c.oid = to_regclass(t.name)
           where has_schema_privilege('public', c.relnamespace, 'create')
         union all (select 'rows' from (values ${tables}) t(name) where row_security_active(to_regclass(t.name)) limit 1)`,
  );
  return rows.map(([name]) => WARNINGS[name as string] as string);
}
