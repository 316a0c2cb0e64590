import { PINNED_PATH } from '../../store/postgres/schema/catalog.js';
import type { StoreSettings } from '../../store/names.js';
import { RAW, type PgClient } from './postgres-connection.js';

/** What a connection needs beyond what all of ours have. */
export type Settings = Readonly<Record<string, string>>;

/** Whose the session is: what we set in it reaches others, where a pooler hands it on. */
export interface Session {
  /** Runs once, in a session of our own. */
  readonly atStart: string;
  /** Runs in each transaction, behind a pooler. */
  readonly inTransaction: string;
}

/** What the other end of a connection tells of itself, before anything is set in the session. */
export interface OtherEnd {
  /** The server process is not the one that the connection was told at its start: a pooler hands out ids of its own. */
  readonly isPooler: boolean;
  /** From PostgreSQL 17. */
  readonly limitsTransactions: boolean;
  /** From PostgreSQL 15: what it counts costs nothing to read. */
  readonly countsInMemory: boolean;
}

export async function askOtherEnd(client: PgClient): Promise<OtherEnd> {
  const text = `select pg_catalog.pg_backend_pid(), pg_catalog.current_setting('transaction_timeout', true),
    pg_catalog.current_setting('server_version_num')`;
  const { rows } = await client.query({ text, rowMode: 'array', types: RAW });
  const [process, limit, version] = rows[0] as readonly [string, string | null, string];
  const told = client.processID ?? undefined;
  return {
    isPooler: told !== undefined && Number(process) !== told,
    limitsTransactions: limit !== null,
    countsInMemory: Number(version) >= 150_000,
  };
}

/**
 * Statements prepared on empty tables must stay fast when there are millions of rows and no statistics: every hot
 * statement has exactly one plan without sequential and bitmap scans. Nothing is found through a search_path that others
 * may put functions and operators into. Texts come in the form that is read, and mean the same, whatever the server, the
 * database or the role gives to all sessions.
 */
function settingsOf({ statementTimeout }: StoreSettings): Settings {
  return {
    search_path: PINNED_PATH,
    enable_seqscan: 'off',
    enable_bitmapscan: 'off',
    jit: 'off',
    plan_cache_mode: 'force_generic_plan',
    max_parallel_workers_per_gather: '0',
    timezone: `'UTC'`,
    datestyle: `'ISO'`,
    bytea_output: 'hex',
    intervalstyle: 'postgres',
    array_nulls: 'on',
    quote_all_identifiers: 'off',
    transform_null_equals: 'off',
    synchronous_commit: 'on',
    lock_timeout: '0',
    statement_timeout: String(statementTimeout),
    idle_in_transaction_session_timeout: String(statementTimeout),
  };
}

/** Of a session that is ours alone. */
export function ownSession(settings: StoreSettings, extra: Settings): Session {
  const all = { ...settingsOf(settings), default_transaction_isolation: `'read committed'`, ...extra };
  return { atStart: `${written('set', all)}; ${UNLIMITED}`, inTransaction: '' };
}

/** Of one that a pooler gives to others after each transaction: nothing of ours may stay in it. */
export function pooledSession(settings: StoreSettings, extra: Settings, otherEnd: OtherEnd): Session {
  const { limitsTransactions, countsInMemory } = otherEnd;
  const unlimited: Settings = limitsTransactions ? { transaction_timeout: '0' } : {};
  const all = { ...settingsOf(settings), ...unlimited, ...extra };
  return { atStart: '', inTransaction: `; ${written('set local', all)}; ${serverRun(countsInMemory)}` };
}

/**
 * Another text after each start, and from PostgreSQL 15 after each crash that ends all sessions but not the server: what was committed
 * asynchronously may be gone then. Its statistics begin anew.
 */
function serverRun(countsInMemory: boolean): string {
  const crash = countsInMemory ? ', pg_catalog.pg_stat_get_bgwriter_stat_reset_time()' : '';
  return `select pg_catalog.concat_ws(' ', pg_catalog.pg_postmaster_start_time()${crash})`;
}

function written(set: 'set' | 'set local', settings: Settings): string {
  return Object.entries(settings)
    .map(([name, value]) => `${set} ${name} = ${value}`)
    .join('; ');
}

/**
 * A limit of the server's, the database's or the role's would cut a session that waits for work or for a notification. Those
 * that this server does not have are left out. Each transaction of ours has limits for what it runs and for its pauses.
 */
const UNLIMITED = `select pg_catalog.set_config(name, '0', false) from pg_catalog.pg_settings
  where name in ('idle_session_timeout', 'transaction_timeout')`;
