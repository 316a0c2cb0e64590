import { OutboxAmbiguousTransactionError, OutboxTransactionRequiredError } from '../outbox.errors.js';
import type { DataLayer, Session } from './data-layer.js';
import type { TransactionScope } from './transaction-scope.js';

/**
 * Finds the transaction to write in: the caller's `tx`, else the scope of `outbox.transaction` and `outbox.bind`, else
 * `currentManager()`. Fails closed: whatever is not an active transaction of the outbox's own database is an error.
 */
export class CurrentTransaction {
  constructor(
    readonly dataLayer: DataLayer,
    readonly scope: TransactionScope,
    readonly currentManager: (() => unknown) | undefined,
  ) {}

  require(handle: unknown): Session | Promise<Session> {
    if (handle !== undefined) return this.dataLayer.require(handle);
    const ambient = this.ambient();
    if (ambient !== undefined) return ambient;
    throw new OutboxTransactionRequiredError('There is no active transaction.', { hint: this.dataLayer.howTo });
  }

  /** The active transaction around this call, checked, or `undefined` when there is none. */
  ambient(): Session | undefined {
    const scoped = activeOrNone(this.scope.current());
    const current = this.currentManager?.();
    const other = activeOrNone(current === undefined || current === null ? undefined : this.dataLayer.find(current));
    if (scoped !== undefined && other !== undefined && scoped.watch !== other.watch) {
      throw new OutboxAmbiguousTransactionError(
        'Two transactions are active: the one of outbox.transaction or outbox.bind, and the one of currentManager().',
        { hint: 'Pass { tx } to say which one is meant.' },
      );
    }
    const session = scoped ?? other;
    session?.demandActive();
    return session;
  }
}

function activeOrNone(session: Session | undefined): Session | undefined {
  return session?.isActive === true ? session : undefined;
}
