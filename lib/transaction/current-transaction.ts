import { OutboxAmbiguousTransactionError, OutboxTransactionRequiredError } from '../outbox.errors.js';
import type { DataLayer, Session } from './data-layer.js';
import type { TransactionScope } from './transaction-scope.js';

/**
 * Finds the transaction to write in: the caller's `tx`, else the scope of `outbox.transaction` and `outbox.bind`, else
 * `currentTransaction()`. Fails closed: whatever is not an active transaction of the outbox's own database is an error.
 */
export class CurrentTransaction {
  constructor(
    readonly dataLayer: DataLayer,
    readonly scope: TransactionScope,
    readonly currentTransaction: (() => unknown) | undefined,
  ) {}

  require(handle: unknown): Session | Promise<Session> {
    if (handle !== undefined) return this.dataLayer.require(handle);
    const ambient = this.ambient();
    if (ambient !== undefined) return ambient;
    const hint = `${this.dataLayer.howTo} For one that another library keeps, set currentTransaction.`;
    throw new OutboxTransactionRequiredError('There is no active transaction.', { hint });
  }

  /** The active transaction around this call, checked, or `undefined` when there is none. */
  ambient(): Session | Promise<Session> | undefined {
    const current = this.currentTransaction?.() ?? undefined;
    const other = current === undefined ? undefined : this.dataLayer.find(current);
    return other instanceof Promise ? other.then((session) => this.only<never>(session)) : this.only(other);
  }

  /** @param other of `currentTransaction()`: one that has ended is refused, too */
  private only<None extends undefined>(other: Session | None): Session | None {
    other?.demandActive();
    const scoped = this.scope.current();
    if (scoped?.isActive !== true) return other;
    if (other === undefined || scoped.watch === other.watch) return scoped;
    const text =
      'Two transactions are active: the one of outbox.transaction or outbox.bind, and the one of currentTransaction().';
    throw new OutboxAmbiguousTransactionError(text, { hint: 'Pass { tx } to say which one is meant.' });
  }
}
