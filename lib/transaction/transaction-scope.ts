import { AsyncLocalStorage } from 'node:async_hooks';
import { types } from 'node:util';
import { isObservable, type ObservableLike } from '../message/is-observable.js';
import type { DataLayer, Session } from './data-layer.js';

interface Scope {
  readonly session: Session;
  /** Not every `work` says when it ends; its transaction does. */
  readonly transaction: number;
  /** Work that outlives its scope must not join a later transaction of the same session. */
  over: boolean;
}

/** The ambient transaction of one data layer: what `outbox.transaction` and `outbox.bind` put around the caller's function. */
export class TransactionScope {
  /** Outboxes with one source write in one transaction. */
  static of({ source }: Pick<DataLayer, 'source'>): TransactionScope {
    const known = scopes.get(source) ?? new TransactionScope();
    scopes.set(source, known);
    return known;
  }

  private readonly storage = new AsyncLocalStorage<Scope>();

  current(): Session | undefined {
    const scope = this.storage.getStore();
    if (scope === undefined || scope.over) return undefined;
    return scope.session.watch.state.number === scope.transaction ? scope.session : undefined;
  }

  /** Runs `work` inside; an Observable is subscribed to inside, whenever that happens. */
  run<T>(session: Session, work: () => T): T {
    const scope: Scope = { session, transaction: session.watch.state.number, over: false };
    const result = this.storage.run(scope, work);
    // Of the platform only: the `then` of a query builder runs its query, each time.
    if (types.isPromise(result)) {
      const end = (): void => void (scope.over = true);
      result.then(end, end);
    } else if (isObservable(result)) {
      return this.bound(scope, result);
    }
    return result;
  }

  /**
   * An interceptor returns `next.handle()` before anybody subscribes, so that a scope around the call alone is lost. Operators
   * subscribe through `source.subscribe`, so this one method is enough.
   */
  private bound<T extends ObservableLike>(scope: Scope, source: T): T {
    const { storage } = this;
    const bound = Object.create(source) as T;
    bound.subscribe = (...observer) => storage.run(scope, () => source.subscribe(...observer));
    return bound;
  }
}

const scopes = new WeakMap<object, TransactionScope>();
