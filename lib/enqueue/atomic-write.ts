import { OutboxTransactionRequiredError } from '../outbox.errors.js';
import type { SqlExecutor, SqlResult } from '../store/executor.js';
import { statement, type Sql } from '../store/sql.js';
import { over } from '../transaction/errors.js';
import { isRefusal } from '../transaction/refusal.js';
import type { TransactionWatch } from '../transaction/transaction-watch.js';

/** Statements that both PostgreSQL and MySQL know; outside of a transaction the second one of the probe fails. */
const [PROBE, END_OF_PROBE, SAVEPOINT, ROLLBACK, RELEASE] = [
  'savepoint outbox_probe',
  'release savepoint outbox_probe',
  'savepoint outbox_enqueue',
  'rollback to savepoint outbox_enqueue',
  'release savepoint outbox_enqueue',
].map((sql) => statement(undefined, sql).bind()) as [Sql, Sql, Sql, Sql, Sql];

/** PostgreSQL's `no_active_sql_transaction`. */
const NO_TRANSACTION = '25P01';

/**
 * The statements of one enqueue. Each is sent only while the transaction that it belongs to is there, and they are in it
 * together or not at all: what a failure leaves is taken back, and where that cannot be known, the transaction is not committed.
 *
 * - A statement that the server refuses leaves nothing: on PostgreSQL the transaction is aborted with it, on MySQL and MariaDB
 *   the statement is undone, and a savepoint takes back those before it.
 * - Of one that failed on this side (a timeout of the driver, a lost answer) nobody knows whether it was or will be executed.
 */
export class AtomicWrite implements SqlExecutor {
  private sent = false;
  /** Whether the server said no to the last statement. */
  private refused = false;

  constructor(
    readonly watch: TransactionWatch,
    readonly executor: SqlExecutor,
  ) {}

  /**
   * @param guarded has a savepoint around it: `work` may fail with a part of it written, in a transaction that goes on. The
   * savepoint takes back as well what the application sends meanwhile, which drivers advise against.
   */
  async whole<T>(guarded: boolean, work: () => Promise<T>): Promise<T> {
    const { watch } = this;
    const all = async (): Promise<T> => {
      if (guarded) await this.run(SAVEPOINT);
      try {
        const result = await work();
        if (guarded) await this.run(RELEASE);
        return result;
      } catch (error) {
        if (guarded) await this.takeBack();
        throw error;
      }
    };
    try {
      // Nothing of the application's comes between two statements: it could be what ends the transaction.
      return watch.losesTransactions || watch.state.doubtful ? await watch.state.alone(all) : await all();
    } catch (error) {
      if (this.sent && !this.refused) watch.written.spoil(error); // nobody knows what it left
      throw error;
    }
  }

  async run(sql: Sql): Promise<SqlResult> {
    const { watch, executor } = this;
    const { state } = watch;
    try {
      await this.demandTransaction();
      this.refused = false;
      this.sent = true;
      const result = await executor.run(sql);
      state.heard();
      if (result.inTransaction === false) throw this.strayed();
      return result;
    } catch (error) {
      state.heard();
      this.refused = isRefusal(error) || error instanceof OutboxTransactionRequiredError;
      if (watch.losesTransactions) state.doubtful = true;
      else watch.failed ||= isRefusal(error);
      throw error;
    }
  }

  /** Throws where there is no transaction any more. */
  async demandTransaction(): Promise<void> {
    const { watch } = this;
    const { losesTransactions, state } = watch;
    if (!losesTransactions) {
      if (watch.says('I')) throw this.ended(new Error('The server says that no transaction is open.'));
      // A statement that is on its way to PostgreSQL may be what ends it.
      if (watch.driver()?.readyForQuery === false) state.doubtful = true;
    }
    if (losesTransactions || state.doubtful) await state.settle(() => this.probe());
  }

  private ended(cause: unknown): Error {
    const { state } = this.watch;
    Object.assign(state, { isLost: state.isLost || !state.ended, ended: true, doubtful: true });
    return over(cause);
  }

  /** Between the look and the statement somebody else's ended the transaction, on the driver's own connection. */
  private strayed(): Error {
    const text = 'The statement was executed after the end of the transaction, and its message committed by itself.';
    return this.ended(new Error(text));
  }

  /** What fails here leaves the transaction as it is known by `refused`. */
  private async takeBack(): Promise<void> {
    const { refused, watch } = this;
    const { losesTransactions } = watch;
    if (refused && !losesTransactions) return; // PostgreSQL has aborted the transaction
    try {
      await this.executor.run(ROLLBACK);
      await this.executor.run(RELEASE);
      this.refused = true;
    } catch (error) {
      // PostgreSQL has aborted it now. On MySQL a savepoint is gone with the whole transaction, as after a deadlock, or because it was
      // released and the answer lost.
      this.refused = isRefusal(error) && (!losesTransactions || (refused && isGone(error)));
    }
  }

  private async probe(): Promise<void> {
    const { losesTransactions, state } = this.watch;
    try {
      const { inTransaction } = await this.executor.run(PROBE);
      // With `autocommit = 0` both statements succeed on MySQL, transaction or not.
      if (inTransaction === false) throw new Error('The server says that no transaction is open.');
      await this.executor.run(END_OF_PROBE);
    } catch (cause) {
      state.doubtful = true;
      // PostgreSQL, but for that one: a statement failed, and a savepoint may mend it.
      throw losesTransactions || (cause as { code?: unknown }).code === NO_TRANSACTION ? this.ended(cause) : cause;
    } finally {
      state.heard();
    }
  }
}

/** MySQL's `ER_SP_DOES_NOT_EXIST`. */
const isGone = (error: unknown): boolean => (error as { errno?: unknown }).errno === 1305;
