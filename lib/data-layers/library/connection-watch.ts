import { OutboxRollbackOnlyError } from '../../outbox.errors.js';
import type { SqlExecutor, SqlResult } from '../../store/executor.js';
import { statement, type Sql } from '../../store/sql.js';
import { tellPerhaps } from '../../transaction/after-commit.js';
import { isRefusal } from '../../transaction/refusal.js';
import { boundaryOf, isEnd, type Boundary } from '../../transaction/sql-boundary.js';
import { TransactionWatch } from '../../transaction/transaction-watch.js';
import { tellPlace } from './ask.js';

const ROLLBACK = statement(undefined, 'rollback').bind();

/**
 * A connection of the application's driver. All that is sent on it comes by here, whatever library sends it; statements of ours go
 * past, in the same session.
 */
export abstract class ConnectionWatch extends TransactionWatch implements SqlExecutor {
  /** Whether a transaction is open, as far as the server's answers tell. */
  abstract readonly isActive: boolean;
  abstract run(sql: Sql): Promise<SqlResult>;
  /** A statement, as if the application had sent it. */
  abstract send(text: string): Promise<unknown>;

  /** Resolves when what is held back was sent; what comes meanwhile goes behind it. */
  private tail: Promise<void> | undefined;

  /** What the application sends, in its order: nothing overtakes an end that waits for a write. */
  protected through<T>(text: unknown, parameters: unknown, statement: () => Promise<T>): Promise<T> {
    if (this.tail === undefined) {
      const { answer, sent } = this.start(text, parameters, statement);
      if (sent !== undefined) this.queue(sent);
      return answer;
    }
    const started = this.tail.then(() => this.start(text, parameters, statement));
    this.queue(
      started.then(
        ({ sent }) => sent,
        () => undefined,
      ),
    );
    return started.then(({ answer }) => answer);
  }

  /** Whether a statement concerns nobody here: no message was written, and it is no boundary. */
  protected isNothing(text: unknown): boolean {
    tellPlace(this, text);
    return this.tail === undefined && this.written.isEmpty && this.held === undefined && boundaryOf(text) === undefined;
  }

  private queue(tail: Promise<void>): void {
    this.tail = tail;
    void tail.then(() => {
      if (this.tail === tail) this.tail = undefined;
    });
  }

  private start<T>(
    text: unknown,
    parameters: unknown,
    statement: () => Promise<T>,
  ): { answer: Promise<T>; sent: Promise<void> | undefined } {
    let isSent = false;
    let release = (): void => undefined;
    const answer = this.watched(text, parameters, () => {
      isSent = true;
      release();
      return statement();
    });
    if (isSent) return { answer, sent: undefined };
    const sent = new Promise<void>((resolve) => {
      release = resolve;
    });
    answer.then(release, release); // one that is refused is never sent
    return { answer, sent };
  }

  private watched<T>(text: unknown, parameters: unknown, statement: () => Promise<T>): Promise<T> {
    const answer = this.pass(text, parameters, statement);
    if (this.written.isEmpty && this.inFlight.size === 0) return answer;
    const boundary = boundaryOf(text, parameters);
    if (!isEnd(boundary)) return answer;
    return answer.catch((error: unknown) => this.endFailed(boundary, error));
  }

  /** One text may end a transaction and begin another, or begin it behind something else. */
  override answered<T>(boundary: Boundary, text: unknown, result: T): T {
    const isBack = (result as { command?: unknown } | null | undefined)?.command === 'ROLLBACK'; // said to COMMIT, too
    if (isBack && !this.written.isEmpty) this.failed = true;
    super.answered(boundary, text, result);
    if (this.state.ended && this.isActive) this.state.begin();
    return result;
  }

  /** Libraries give a connection back behind a COMMIT that failed, and send no ROLLBACK. */
  private async endFailed(boundary: Boundary | undefined, error: unknown): Promise<never> {
    if (error instanceof OutboxRollbackOnlyError) {
      await this.pass('rollback', undefined, () => this.run(ROLLBACK)).catch(() => undefined);
    } else if (boundary === 'rollback' || (isRefusal(error) && !this.losesTransactions)) {
      this.tellAll(false);
    } else {
      tellPerhaps(this.written.entries); // its answer was lost
    }
    throw error;
  }
}
