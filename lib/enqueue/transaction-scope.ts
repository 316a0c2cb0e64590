import { AsyncLocalStorage } from 'node:async_hooks';
import { types } from 'node:util';
import type { QueryRunner } from 'typeorm';
import { isObservable, type ObservableLike } from '../is-observable.js';

interface Scope {
  readonly runner: QueryRunner;
  /** Work that outlives its scope must not join a later transaction of the same runner. */
  over: boolean;
}

/** The ambient transaction of one outbox: what `outbox.transaction` and `outbox.bind` put around the caller's function. */
export class TransactionScope {
  /** @internal */ readonly storage = new AsyncLocalStorage<Scope>();

  current(): QueryRunner | undefined {
    const scope = this.storage.getStore();
    return scope === undefined || scope.over ? undefined : scope.runner;
  }

  /** Runs `work` inside; an Observable is subscribed to inside, whenever that happens. */
  run<T>(runner: QueryRunner, work: () => T): T {
    const scope: Scope = { runner, over: false };
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
  /** @internal */ bound<T extends ObservableLike>(scope: Scope, source: T): T {
    const { storage } = this;
    const bound = Object.create(source) as T;
    bound.subscribe = (...observer) => storage.run(scope, () => source.subscribe(...observer));
    return bound;
  }
}
