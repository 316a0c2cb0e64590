import { systemClock } from '../../time/clock.js';
import { OutboxError } from '../../outbox.errors.js';
import { PLAIN, type TransactionBounds } from '../../store/mysql/capabilities.js';
import type { MysqlError } from '../../store/mysql/errors.js';
import type { Sql } from '../../store/sql.js';
import type { SqlExecutor, SqlResult } from '../../store/executor.js';
import { lost, OwnConnection } from './own-connection.js';

/** What we use of a mysql2 connection; its own types would make mysql2 a dependency of ours. */
export interface MysqlClient {
  query(options: MysqlQuery, done: (error: MysqlError | null, result: unknown) => void): void;
  on(event: string, listener: (...args: never[]) => void): unknown;
  /** Says goodbye, which waits for a statement that still runs. */
  destroy(): void;
  /** COM_QUIT; without it the server counts, and logs, an aborted connection. */
  end(done: () => void): void;
  readonly stream?: { destroy(): void };
}
/** A client with our session settings, and how a transaction begins and ends on it. */
export interface MysqlSession {
  readonly client: MysqlClient;
  readonly bounds: TransactionBounds;
}
interface MysqlQuery {
  sql: string;
  values: readonly unknown[];
  rowsAsArray: true;
  timeout?: number;
}
/** One connection over mysql2. */
export class MysqlConnection extends OwnConnection<MysqlSession> {
  /** fails the statement in flight: mysql2 forgets it when the connection is destroyed */
  private abort: ((reason: Error) => void) | undefined;

  /** @param timeout milliseconds after which the client gives up on an answer and drops the connection. */
  constructor(
    checkOut: () => Promise<MysqlSession>,
    readonly timeout: number,
    /** The server takes no writes any more: what is open there may be a replica's by now, and reads it for ever. */
    readonly demoted: () => void,
    closeIdleAfter?: number,
  ) {
    super(checkOut, closeIdleAfter);
  }

  run(sql: Sql): Promise<SqlResult> {
    return this.enqueue(({ client }) => this.execute(client, sql));
  }

  transaction<T>(work: (tx: SqlExecutor, ended: AbortSignal) => Promise<T>): Promise<T> {
    return this.enqueue(async ({ client, bounds }) => {
      const { signal } = this.session;
      await this.ask(client, bounds.begin);
      try {
        const result = await work({ run: (sql) => this.execute(client, sql) }, signal);
        await this.ask(client, bounds.commit);
        return result;
      } catch (error) {
        // Without a rollback the next caller would work inside this transaction.
        await this.rollBack(client, bounds).catch(() => this.drop());
        throw error;
      }
    });
  }

  private async rollBack(client: MysqlClient, bounds: TransactionBounds): Promise<void> {
    await this.ask(client, 'rollback');
    if (bounds !== PLAIN) await this.ask(client, bounds.commit); // nothing is left to commit: it ends the bounds
  }

  protected override enqueue<T>(work: (session: MysqlSession) => Promise<T>): Promise<T> {
    return super.enqueue(async (session) => {
      try {
        return await work(session);
      } catch (error) {
        if (READ_ONLY.has((error as MysqlError).errno ?? 0)) this.demoted();
        if (endsSession(error)) await this.drop();
        throw error;
      }
    });
  }

  override drop(): Promise<void> {
    const { abort } = this;
    this.abort = undefined;
    const dropped = super.drop();
    abort?.(lost()); // a statement that is queued on a connection before its end is forgotten with it
    return dropped;
  }

  protected async end({ client }: MysqlSession): Promise<void> {
    destroy(client);
  }

  /** The server is told, and one that does not close it within a second is left. */
  protected override leave(): void {
    const { client } = this.opened ?? {};
    if (client === undefined) return void this.drop();
    this.forget();
    client.end(() => undefined); // sent by then, perhaps: to destroy it now would cut that off
    systemClock.after(GOODBYE, () => destroy(client));
  }

  /** A server that does not answer loses its connection after {@link timeout}. */
  private ask(client: MysqlClient, sql: string, values: readonly unknown[] = []): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const cancel = systemClock.after(this.timeout, () => void this.drop());
      const ended = (): void => {
        cancel();
        if (this.abort === abort) this.abort = undefined;
      };
      const abort = (reason: Error): void => {
        ended(); // nothing else would: its deadline would end the connection that comes after this one
        reject(reason);
      };
      this.abort = abort;
      query(client, sql, values).then(resolve, reject).finally(ended);
    });
  }

  async execute(client: MysqlClient, { statement, values }: Sql): Promise<SqlResult> {
    const result = await this.ask(client, statement.questionMarks, values.map(asLiteral));
    return Array.isArray(result)
      ? { rows: result as (readonly unknown[])[], affected: 0 }
      : { rows: [], affected: (result as { affectedRows: number }).affectedRows };
  }
}

/** Milliseconds. */
const GOODBYE = 1_000;

function destroy(client: MysqlClient): void {
  client.destroy();
  client.stream?.destroy(); // its goodbye would wait for the statement that still runs
}

/** The text protocol: measured as fast as prepared statements for every hot statement, and it passes every proxy. */
export function query(
  client: MysqlClient,
  sql: string,
  values: readonly unknown[],
  timeout?: number,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    client.query({ sql, values, rowsAsArray: true, ...(timeout === undefined ? {} : { timeout }) }, (error, result) => {
      if (error === null || error === undefined) resolve(result);
      else reject(withoutStatement(error));
    });
  });
}

/** Integers beyond 2^53 as digits; older mysql2 releases cannot escape a bigint. */
function asLiteral(value: unknown): unknown {
  return typeof value === 'bigint' ? { toSqlString: () => String(value) } : value;
}

/**
 * mysql2 puts the statement with all its values on the error, and of some errors the server's text quotes one: payloads
 * must not get into logs that way.
 */
export function withoutStatement(error: MysqlError): MysqlError {
  delete (error as { sql?: string }).sql;
  const quoted = VALUES[error.errno ?? 0];
  if (quoted === undefined) return error;
  const { message, stack } = error;
  error.message = message.replace(quoted, QUOTED);
  if (stack !== undefined) error.stack = stack.replace(message, () => error.message);
  const { sqlMessage } = error as { sqlMessage?: string };
  return sqlMessage === undefined ? error : Object.assign(error, { sqlMessage: sqlMessage.replace(quoted, QUOTED) });
}

/** In any language: all from the first quote to the last one, but for the key's name at the end. */
const TWICE = /'[^]*'(?=[^']*'[^']*'[^']*$)/;
const WRONG = /'[^]*'/;
/** `ER_DUP_ENTRY`, `ER_DUP_ENTRY_WITH_KEY_NAME`, `ER_TRUNCATED_WRONG_VALUE`, the same `_FOR_FIELD`. */
const VALUES: Readonly<Record<number, RegExp>> = { 1062: TWICE, 1586: TWICE, 1292: WRONG, 1366: WRONG };
const QUOTED = "'***'";

/** `ER_OPTION_PREVENTS_STATEMENT` (read_only), `ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION`, `ER_READ_ONLY_MODE`. */
const READ_ONLY: ReadonlySet<number> = new Set([1290, 1792, 1836]);

/** Anything but an answer of the server leaves the connection in an unknown state. */
function endsSession(error: unknown): boolean {
  if (error instanceof OutboxError) return false;
  const { errno, sqlState, fatal } = error as MysqlError;
  return fatal === true || typeof errno !== 'number' || typeof sqlState !== 'string';
}
