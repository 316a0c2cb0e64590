import type { Sql } from '../../store/sql.js';
import type { SqlExecutor, SqlResult } from '../../store/executor.js';
import { OwnConnection } from './own-connection.js';
import { refuseStatementMode } from './statement-mode.js';

/** What we use of node-postgres' Client. */
export interface PgClient {
  /** The server process, as the other end of the connection said at its start. */
  readonly processID?: number | null;
  query(query: string | PgQuery): Promise<{ rows: readonly (readonly unknown[])[]; rowCount: number | null }>;
  on(event: string, listener: (...args: never[]) => void): unknown;
  removeListener(event: string, listener: (...args: never[]) => void): unknown;
  end(): Promise<void>;
  readonly connection?: { readonly stream?: { destroy(): void } };
  /** Whether it asks for bytes in place of texts. */
  binary?: boolean;
}
interface PgQuery {
  name?: string | undefined;
  text: string;
  values?: readonly unknown[];
  rowMode: 'array';
  types: typeof RAW;
}
/** What one connection notices, and the others should know. */
export interface Noticed {
  /** The server takes no writes any more: what is open there may be a replica's by now, and reads it for ever. */
  demoted(): void;
  /** What was prepared in the session is not there, or was there before: sessions are handed on. */
  pooled(): void;
}
export interface CheckedOut {
  readonly client: PgClient;
  /**
   * Behind a pooler the session is somebody else's after each transaction. So every statement runs in one, which begins with what
   * a session of our own is told once, and nothing is prepared.
   */
  readonly pooled: boolean;
  /** Runs with each `begin`; behind a pooler its one row names the server's run. */
  readonly inTransaction: string;
  release(): Promise<void>;
}

/** Every column arrives as the text that the server sent: sequences pass 2^53, and nothing is parsed twice. */
export const RAW = { getTypeParser: () => (value: string) => value };
const SQLSTATE = /^[0-9A-Z]{5}$/;

/** One connection over node-postgres. */
export class PostgresConnection extends OwnConnection<CheckedOut> {
  /** Behind a pooler: from the server's start to its end or crash, which the connection to the pooler survives. */
  private serverRun: string | undefined;

  constructor(
    checkOut: () => Promise<CheckedOut>,
    readonly noticed: Noticed,
    /** Milliseconds that a transaction may idle, where that is not what the session says. */
    readonly idleInTransaction?: number,
    closeIdleAfter?: number,
  ) {
    super(checkOut, closeIdleAfter);
  }

  run(sql: Sql): Promise<SqlResult> {
    return this.enqueue((open) =>
      open.pooled ? this.inTransaction(open, (tx) => tx.run(sql)) : this.execute(open, sql),
    );
  }

  transaction<T>(work: (tx: SqlExecutor, ended: AbortSignal) => Promise<T>): Promise<T> {
    return this.enqueue((open) => {
      const { signal } = this.session;
      return this.inTransaction(open, (tx) => work(tx, signal));
    });
  }

  private async inTransaction<T>(open: CheckedOut, work: (tx: SqlExecutor) => Promise<T>): Promise<T> {
    try {
      await this.begin(open);
      const result = await work({ run: (sql) => this.execute(open, sql) });
      await this.send(open, 'commit');
      return result;
    } catch (error) {
      await open.client.query('rollback').catch(() => this.drop()); // without an effect when the session is gone already
      throw error;
    }
  }

  /** With what holds for this transaction only. */
  private async begin(open: CheckedOut): Promise<void> {
    const idle =
      this.idleInTransaction === undefined
        ? ''
        : `; set local idle_in_transaction_session_timeout = ${this.idleInTransaction}`;
    const text = `begin isolation level read committed read write${open.inTransaction}${idle}`;
    const begun: unknown = await this.send(open, { text, rowMode: 'array', types: RAW }).catch(refuseStatementMode);
    if (open.pooled) this.compareRun(begun as readonly { rows: readonly (readonly string[])[] }[]);
  }

  private compareRun(begun: readonly { rows: readonly (readonly string[])[] }[]): void {
    const run = begun.find(({ rows }) => rows.length > 0)?.rows[0]?.[0];
    if (this.serverRun !== undefined && this.serverRun !== run) this.generation++;
    this.serverRun = run;
  }

  protected async end({ release }: CheckedOut): Promise<void> {
    await release().catch(() => undefined);
  }

  private async execute(open: CheckedOut, { statement, values }: Sql): Promise<SqlResult> {
    const result = await this.send(open, {
      name: open.pooled ? undefined : statement.name,
      text: statement.positional,
      values,
      rowMode: 'array',
      types: RAW,
    });
    return { rows: result.rows ?? [], affected: result.rowCount ?? 0 };
  }

  /** A failure that leaves the session in doubt ends it: the next statement opens another. */
  private async send({ client }: CheckedOut, query: string | PgQuery): ReturnType<PgClient['query']> {
    try {
      return await client.query(query);
    } catch (error) {
      const { code } = error as { code?: unknown };
      if (code === READ_ONLY) this.noticed.demoted();
      if (PREPARED_ELSEWHERE.has(code)) this.noticed.pooled();
      if (endsSession(error)) await this.drop();
      return withoutValues(error);
    }
  }
}

/** `invalid_sql_statement_name`, `duplicate_prepared_statement`. */
export const PREPARED_ELSEWHERE: ReadonlySet<unknown> = new Set(['26000', '42P05']);

/** `read_only_sql_transaction`: of a standby, and of a primary that was told so. */
const READ_ONLY = '25006';

/** Anything but an answer of the server, or an answer that ends the session. */
function endsSession(error: unknown): boolean {
  const state = (error as { code?: unknown }).code;
  return typeof state !== 'string' || !SQLSTATE.test(state) || /^(08|57P)/.test(state);
}

/**
 * The server's detail and context quote the row, and of some errors its text quotes a value: payloads must not get into logs
 * through an error.
 */
export function withoutValues(error: unknown): never {
  if (error instanceof Error) {
    Object.assign(error, { detail: undefined, where: undefined });
    if (WRONG_VALUE.has((error as { code?: unknown }).code)) hideValue(error);
  }
  throw error;
}

/** `numeric_value_out_of_range`, `invalid_datetime_format`, `datetime_field_overflow`, `invalid_text_representation`. */
const WRONG_VALUE: ReadonlySet<unknown> = new Set(['22003', '22007', '22008', '22P02']);

/** In any language, by its quotes: all from the first quote to the last one. */
function hideValue(error: Error): void {
  const { message, stack } = error;
  error.message = message.replace(/["«„“”»][^]*["«„“”»]/, '"***"');
  if (stack !== undefined) error.stack = stack.replace(message, () => error.message);
}
