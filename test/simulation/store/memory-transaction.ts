import type { SqlExecutor } from '../../../lib/store/executor.js';
import type { MemoryDatabase } from './memory-database.js';
import type { ReadyRow } from './memory-rows.js';

/** A statement did not run: it has to wait until this transaction ends. */
export class Blocked {
  constructor(readonly by: MemoryTransaction) {}
}

/** A transaction of the application, to be handed to `insert` as `tx`; inside the store also one of the relay's own. */
export class MemoryTransaction implements SqlExecutor {
  state: 'open' | 'committed' | 'rolledBack' = 'open';
  /** Rows that it inserted. */
  readonly rows: ReadyRow[] = [];
  /** Numbers that it has taken for rows that are not there yet. */
  readonly reserved: string[] = [];
  /** Place among all commits; a later one that waits for the disk takes the earlier ones with it. */
  commitNumber = Infinity;
  /** By itself, without a later one. */
  durableAt = 0;
  /** Taken with the first row: a transaction that writes nothing has none. */
  id: bigint | undefined;
  readonly ended: Promise<void>;
  /** @internal Whose end a statement of this transaction waits for. */ waitsFor: MemoryTransaction | undefined;
  /** @internal */ readonly undo: (() => void)[] = [];
  /** @internal */ wake: () => void = () => undefined;

  /**
   * @param asynchronous whether its commit may return before it is on disk
   * @param lag milliseconds until it is there at the latest
   */
  constructor(
    readonly database: MemoryDatabase,
    readonly asynchronous = false,
    readonly lag = 600,
  ) {
    this.ended = new Promise((resolve) => {
      this.wake = resolve;
    });
  }

  /** As any write does. The application's own writes may take the id long before the first message takes its number. */
  takeId(): bigint {
    this.demandOpen();
    if (this.id === undefined) {
      this.id = this.database.nextTransactionId++;
      this.database.open.add(this);
    }
    return this.id;
  }

  commit(): void {
    this.end('committed');
  }
  rollback(): void {
    this.end('rolledBack');
  }

  run(): Promise<never> {
    return Promise.reject(new Error('A transaction in memory runs no SQL.'));
  }

  demandOpen(): void {
    if (this.state !== 'open') throw new Error(`The transaction is ${this.state} already.`);
  }

  /** @internal */ onRollback(undo: () => void): void {
    this.undo.push(undo);
  }

  /** @internal */ end(how: 'committed' | 'rolledBack'): void {
    this.demandOpen();
    this.state = how;
    this.waitsFor = undefined;
    if (how === 'rolledBack') this.revert();
    else this.database.committed(this);
    this.database.finish(this);
    this.wake();
  }

  /** Also of a commit that a crash took back. @internal */
  revert(): void {
    this.state = 'rolledBack';
    for (const undo of this.undo.reverse()) undo();
    this.undo.length = 0;
  }

  /** Whether a crash leaves it as it is. */
  get isDurable(): boolean {
    const { database } = this;
    if (this.state !== 'committed') return false;
    return !this.asynchronous || this.commitNumber <= database.flushed || this.durableAt <= database.now();
  }

  /** Refuses to wait in a circle, as the database does. @internal */
  waitFor(holder: MemoryTransaction): Blocked {
    for (let next: MemoryTransaction | undefined = holder; next !== undefined; next = next.waitsFor) {
      if (next === this) throw Object.assign(new Error('deadlock detected'), { code: '40P01' });
    }
    this.waitsFor = holder;
    return new Blocked(holder);
  }
}
