import type { SqlExecutor } from '../../../lib/store/executors/executor.js';
import type { MemoryDatabase } from './memory-database.js';

/** A statement did not run: it has to wait until this transaction ends. */
export class Blocked {
  constructor(readonly by: MemoryTransaction) {}
}

/** A transaction of the application, to be handed to `insert` as `tx`; inside the store also one of the relay's own. */
export class MemoryTransaction implements SqlExecutor {
  state: 'open' | 'committed' | 'rolledBack' = 'open';
  /** Taken with the first row: a transaction that writes nothing has none. */
  id: bigint | undefined;
  readonly ended: Promise<void>;
  /** @internal Whose end a statement of this transaction waits for. */ waitsFor: MemoryTransaction | undefined;
  /** @internal */ readonly undo: (() => void)[] = [];
  /** @internal */ wake: () => void = () => undefined;

  /** @param asynchronous whether its commit may return before it is on disk */
  constructor(
    readonly database: MemoryDatabase,
    readonly asynchronous = false,
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
    if (how === 'rolledBack') for (const undo of this.undo) undo();
    this.undo.length = 0;
    this.database.finish(this);
    this.wake();
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
