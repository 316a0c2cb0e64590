import { randomBytes } from 'node:crypto';
import type { SqlExecutor } from '../../store/executor.js';
import { statement } from '../../store/sql.js';
import type { Session } from '../../transaction/data-layer.js';
import { over } from '../../transaction/errors.js';
import { MysqlClients, type MysqlSource } from './mysql-clients.js';
import { query } from './mysql-connection.js';
import { PostgresClients, type PostgresSource } from './postgres-clients.js';
import { RAW } from './postgres-connection.js';

/** What leads to the database of an outbox. */
export type Way = { readonly postgres: PostgresSource } | { readonly mysql: MysqlSource | Promise<MysqlSource> };

/** Milliseconds for a question. */
const PATIENCE = { connectTimeout: 10_000, statementTimeout: 10_000 };

/** Asks for one value, over a connection that is opened for it. */
export async function askOnce(way: Way, text: string, ...values: string[]): Promise<string | undefined> {
  if ('postgres' in way) {
    const { client, release } = await new PostgresClients(way.postgres, PATIENCE).take();
    const asked = client.query({ text, values, rowMode: 'array', types: RAW });
    const { rows } = await asked.finally(release);
    return (rows[0]?.[0] as string | null) ?? undefined;
  }
  const client = await new MysqlClients(way.mysql, PATIENCE).take();
  const asked = query(client, text, values, PATIENCE.statementTimeout);
  const [row] = (await asked.finally(() => client.end(() => undefined))) as (string | null)[][];
  return row?.[0] ?? undefined;
}

/** The application's pools beside the outbox's own: transactions of those are taken that lead into its database. */
export class OtherPools {
  /** Whether they do: asked in the first transaction of each. */
  private readonly known = new WeakMap<object, boolean>();
  /** Many may be new at once, and one connection is enough. */
  private asked: Promise<unknown> = Promise.resolve();

  constructor(readonly way: () => Way) {}

  /** @param foreign what is thrown if the pool leads elsewhere */
  async admit<Own extends Session>(session: Own, pool: object, foreign: () => Error): Promise<Own> {
    session.demandActive();
    const { state } = session.watch;
    const { number } = state;
    const isOurs = this.known.get(pool) ?? (await this.isOurs(session.executor));
    session.demandActive(); // one that ended meanwhile had no lock
    if (state.number !== number) throw over();
    this.known.set(pool, isOurs);
    if (!isOurs) throw foreign();
    return session;
  }

  /**
   * What two servers say of themselves is equal where one is a copy of the other, and an address may be a proxy's. So the transaction
   * takes a lock of a new name: who is in the same place sees it, on PostgreSQL in the database, else on the server.
   */
  private async isOurs(transaction: SqlExecutor): Promise<boolean> {
    const way = this.way();
    const { take, look, seen, release } = 'postgres' in way ? POSTGRES : MYSQL;
    const name = String(randomBytes(8).readBigInt64BE());
    await transaction.run(take.bind(name));
    const answer = this.asked.then(() => askOnce(way, look, name));
    this.asked = answer.catch(() => undefined);
    const isSeen = answer.then(seen);
    return release === undefined ? isSeen : isSeen.finally(() => transaction.run(release.bind(name)));
  }
}

const LOCK = statement(undefined, 'select pg_catalog.pg_try_advisory_xact_lock(?)');
/** The lock ends with the transaction; who cannot take it sees it. */
const POSTGRES = { take: LOCK, look: LOCK.positional, seen: (taken?: string) => taken === 'f', release: undefined };
const MYSQL = {
  take: statement(undefined, `select get_lock(concat('outbox ', ?), 0)`),
  look: `select is_used_lock(concat('outbox ', ?))`,
  seen: (by?: string) => by !== undefined,
  release: statement(undefined, `do release_lock(concat('outbox ', ?))`),
};
