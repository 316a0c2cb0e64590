import { systemClock, within } from '../time/clock.js';
import { isEnd, tellsOfNoTransaction, type Boundary } from './sql-boundary.js';

/**
 * Of one transaction what its statements tell. The flags of a data layer follow only when a statement was answered, and what the
 * database ends by itself they never hear of.
 */
export class TransactionState {
  /** COMMIT or ROLLBACK was sent, whatever became of it: what is written next would be committed by itself. */
  ended = false;
  /** The server has ended it by itself, and says so. */
  isLost = false;
  /** ROLLBACK TO SAVEPOINT is on its way. */
  goingBack = false;
  /** SAVEPOINT is on its way: the next statement is sent behind it, and would be inside. */
  saving: Promise<unknown> | undefined;
  /**
   * A statement failed, for which MySQL and MariaDB may have rolled the whole transaction back, as after a deadlock; or one may
   * have ended it that does not begin with COMMIT or ROLLBACK.
   */
  doubtful = false;
  /** Another one for each transaction of the session: what belongs to one must not join the next. */
  number = 0;
  /** How many bytes were sent when the last statement that we hear of was answered. */
  heardUpTo: number | undefined;
  /** Statements of the application that are not answered. */
  readonly unanswered = new Set<Promise<unknown>>();

  /**
   * @param sent how many bytes were sent on the connection; `undefined` where nobody tells
   * @param lost called when an answer tells of no transaction, and its statement is no COMMIT or ROLLBACK
   */
  constructor(
    readonly sent: () => number | undefined = () => undefined,
    readonly lost: () => void = () => undefined,
  ) {}

  get isOpen(): boolean {
    return !this.ended && !this.goingBack;
  }

  /** As after START TRANSACTION. */
  begin(): void {
    this.number += 1;
    this.ended = this.isLost = this.goingBack = this.doubtful = false;
  }

  /** Passes a statement of the application on. */
  send<T>(boundary: Boundary | undefined, statement: () => Promise<T>): Promise<T> {
    if (boundary === 'begin') this.begin();
    if (isEnd(boundary)) this.ended = true;
    if (boundary === 'back') this.goingBack = true;
    if (boundary === 'unsure') this.doubtful = true;
    const answer = statement();
    this.unanswered.add(answer);
    if (boundary === 'save') this.saving = answer;
    const answered = (): void => {
      this.heard();
      this.unanswered.delete(answer);
      if (boundary === 'back') this.goingBack = false;
      if (this.saving === answer) this.saving = undefined;
    };
    answer.then(
      (result) => {
        if (tellsOfNoTransaction(result)) {
          this.doubtful = true;
          if (boundary === undefined) this.lost();
        }
        answered();
      },
      () => {
        this.doubtful = true;
        answered();
      },
    );
    return answer;
  }

  /** All that was sent on the connection so far is known. */
  heard(): void {
    this.heardUpTo = this.sent();
  }

  /** Somebody sent a statement past the data layer: with `stream` of TypeORM, or on the connection itself. */
  get isUnheard(): boolean {
    return this.heardUpTo !== this.sent();
  }

  /**
   * What the application sends meanwhile goes behind this: between the question whether there is a transaction and the write, it
   * could be what ends it.
   */
  async alone<T>(work: () => Promise<T>): Promise<T> {
    const turn = work();
    this.turn = turn;
    try {
      return await turn;
    } finally {
      if (this.turn === turn) this.turn = undefined;
    }
  }
  turn: Promise<unknown> | undefined;

  /** Resolves when it is known on which side of a SAVEPOINT the next statement will be. */
  async saved(): Promise<void> {
    if (this.saving !== undefined) await within(systemClock, PATIENCE, Promise.allSettled([this.saving]));
  }

  /** Resolves when the application's turn has come. */
  async others(): Promise<void> {
    while (this.turn !== undefined) await Promise.allSettled([this.turn]);
  }

  /**
   * Before a write, where a statement can have ended the transaction without a word of ours: the answers to those before it are
   * waited for, as one of them may be the one that did.
   * @param probe rejects when there is no transaction any more
   */
  async settle(probe: () => Promise<unknown>): Promise<void> {
    if (this.unanswered.size > 0) await within(systemClock, PATIENCE, Promise.allSettled(this.unanswered));
    // What is not answered yet was sent, or is waiting for us; the probe comes behind what was sent.
    if (!this.doubtful && this.unanswered.size === 0 && !this.isUnheard) return;
    this.doubtful = false;
    await probe();
  }
}

/** Milliseconds. A write inside a subscriber of a statement would wait for itself. */
const PATIENCE = 1_000;
