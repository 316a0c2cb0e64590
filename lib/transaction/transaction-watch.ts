import { boundaryOf, isEnd, savepointOf, type Boundary } from './sql-boundary.js';
import { over, rollbackOnly, rolledBack } from './errors.js';
import { tell, tellPerhaps, type Entry, type TransactionListener } from './after-commit.js';
import { ENDS_TRANSACTION, errnoOf } from '../store/retry.js';
import { isRefusal } from './refusal.js';
import { TransactionState } from './state.js';
import { WrittenMessages } from './written-messages.js';

/** What drivers tell of a session. */
export interface DriverConnection {
  /** Of pg 8.23 and later: what the server said with its last answer. */
  getTransactionStatus?(): unknown;
  /** Of pg: nothing is on its way. */
  readonly readyForQuery?: boolean;
  /** Of pg: at once, where a statement is on its way. */
  end?(): unknown;
  /** Of mysql2. */
  readonly stream?: { readonly bytesWritten?: number };
}

/**
 * What we keep of a session of the application's, one for all outboxes that write in it. A data layer leads every statement
 * of the session through `pass`.
 *
 * - Every boundary waits for writes that are still in flight: after a ROLLBACK that overtook one, its next statement would
 *   run outside of any transaction; after a SAVEPOINT that did, a rollback would take half of it, such as a message without
 *   its dedup key. A write that begins when a SAVEPOINT is on its way waits for it, and is inside as a whole.
 * - From the moment at which COMMIT or ROLLBACK is sent, nothing is written any more: parallel work of a transaction goes on
 *   when one part of it has failed.
 * - A write asks first whether there still is a transaction, where one may have ended otherwise: on MySQL and MariaDB behind a
 *   statement that failed, whose answer tells of no transaction, or that did not come by here; on PostgreSQL while another one is on
 *   its way, as pg tells in between; anywhere behind one text of several statements with an end.
 * - What becomes of messages is told by the answers of COMMIT, ROLLBACK and ROLLBACK TO, whoever sent them, and where none came, by
 *   the data layer.
 */
export class TransactionWatch {
  readonly written = new WrittenMessages();
  readonly inFlight = new Set<Promise<unknown>>();
  last: Promise<unknown> = Promise.resolve();
  readonly state: TransactionState;
  /** The transaction is over at the server: PostgreSQL said no to a statement, and nobody went back to a savepoint since; a deadlock. */
  failed = false;

  /**
   * @param losesTransactions the server ends some by itself, and commits with statements of other kinds: MySQL, MariaDB
   * @param driver the driver's own connection of the session, where it can be had
   */
  constructor(
    readonly losesTransactions: boolean,
    readonly driver: () => DriverConnection | undefined = () => undefined,
  ) {
    const sent = losesTransactions ? () => this.driver()?.stream?.bytesWritten : undefined;
    this.state = new TransactionState(sent, () => tellPerhaps(this.written.entries));
  }

  /** What PostgreSQL said with its last answer: `I` no transaction, `E` one that takes nothing but its end; `false` where nobody tells. */
  says(status: 'I' | 'E'): boolean {
    return this.driver()?.getTransactionStatus?.() === status;
  }

  /**
   * Runs a write, after those before it; no boundary of the transaction passes it. The ids that it returns are reported to
   * the listener.
   */
  async write<T>(
    listener: TransactionListener,
    work: () => Promise<{ result: T; ids: readonly string[]; also?: readonly Entry[] }>,
  ): Promise<T> {
    while (this.held !== undefined) await this.held;
    this.demandOpen();
    const isFree = this.inFlight.size === 0 && this.state.saving === undefined;
    const turn = isFree ? work() : this.behindOthers().then(work);
    const write = turn.then(({ result, ids, also }) => {
      if (ids.length > 0) this.written.entries.push({ listener, ids });
      this.written.entries.push(...(also ?? []));
      return result;
    });
    this.last = write;
    this.inFlight.add(write);
    try {
      return await write;
    } finally {
      this.inFlight.delete(write);
    }
  }

  async behindOthers(): Promise<void> {
    await Promise.allSettled([this.last, this.state.saved()]);
    if (this.written.spoilt !== undefined) throw rollbackOnly(this.written.spoilt.cause);
  }

  demandOpen(): void {
    if (!this.state.isOpen) throw over();
    if (this.written.spoilt !== undefined) throw rollbackOnly(this.written.spoilt.cause);
  }

  /** A boundary waits for the writes before it; what is written after it waits for the boundary to be sent. */
  hold(): Promise<void> {
    const held = this.quiet().then(() => {
      if (this.held === held) this.held = undefined;
    });
    this.held = held;
    return held;
  }
  held: Promise<void> | undefined;

  /** Resolves when nothing is being written. */
  async quiet(): Promise<void> {
    while (this.inFlight.size > 0) await Promise.allSettled(this.inFlight);
  }

  /**
   * A statement of the application's. An end waits once more in front of the statement itself: who hears of an end may have
   * written.
   */
  pass<T>(text: unknown, parameters: unknown, statement: () => Promise<T>): Promise<T> {
    const { state } = this;
    const boundary = boundaryOf(text, parameters);
    const noted = (error: unknown): never => this.noted(error, boundary);
    if (boundary === undefined && !this.losesTransactions && !this.refuses(boundary)) {
      const answer = statement();
      return this.written.isEmpty ? answer : answer.catch(noted);
    }
    const send = (): Promise<T> => {
      if (this.refuses(boundary)) return Promise.reject(rollbackOnly(this.written.spoilt?.cause));
      const unfinished = isEnd(boundary) && boundary !== 'rollback' ? this.written.unfinished : undefined;
      if (unfinished !== undefined) return Promise.reject(unfinished);
      if (boundary === 'commit' && !this.written.isEmpty) this.failed ||= this.says('E');
      const answer = state.send(boundary, statement);
      if (boundary !== undefined) return answer.then((result) => this.answered(boundary, text, result), noted);
      return this.written.isEmpty ? answer : answer.catch(noted);
    };
    if (boundary !== undefined && this.inFlight.size > 0) return this.hold().then(send);
    return state.turn === undefined ? send() : state.others().then(send);
  }

  /**
   * As PostgreSQL does in a transaction that has failed; but for SAVEPOINT, after which TypeORM would roll everything back and
   * take the next nested transaction for one of its own.
   */
  refuses(boundary: Boundary | undefined): boolean {
    return this.written.spoilt !== undefined && boundary !== 'rollback' && boundary !== 'back' && boundary !== 'save';
  }

  /** Before the application hears of it. @throws OutboxRollbackOnlyError: PostgreSQL has answered COMMIT with ROLLBACK */
  answered<T>(boundary: Boundary, text: unknown, result: T): T {
    const { written } = this;
    const isLost = boundary === 'commit' && this.failed;
    if (boundary === 'begin' || !this.losesTransactions) this.failed = false; // else it would have refused this one
    const name = (): string => savepointOf(String(text));
    if (boundary === 'save') written.saved(name());
    else if (boundary === 'release') written.released(name());
    else if (boundary === 'back') tell(written.wentBack(name()), false);
    else if (boundary === 'commit' || boundary === 'rollback') this.tellAll(boundary === 'commit' && !isLost);
    else this.state.lost(); // of several statements one may be COMMIT; MySQL begins a transaction with the end of another
    if (isLost) throw rolledBack();
    return result;
  }

  tellAll(committed: boolean): void {
    this.failed = false;
    tell(this.written.take(), committed);
  }

  /**
   * Before the application can send its COMMIT: pg's client learns the transaction's state later than the error. A way back that pg
   * could not send within its `query_timeout` it forgets: what stands before it would be committed by the next COMMIT, whoever's.
   */
  noted(error: unknown, boundary: Boundary | undefined): never {
    if (this.written.isEmpty) throw error;
    if (this.losesTransactions) {
      this.failed ||= ENDS_TRANSACTION.has(errnoOf(error));
      if (boundary === 'back') this.written.spoil(rolledBack(error));
    } else if (isRefusal(error)) this.failed = true;
    else if (boundary === 'rollback' || boundary === 'back') void this.driver()?.end?.();
    throw error;
  }
}
