import type { QueryRunner } from 'typeorm';
import type { Session } from '../../transaction/data-layer.js';
import { isWatchedBy } from './runner-watch.js';

/** A table that is written, as TypeORM and most people write it. */
const WRITE =
  /^\s*(?:insert(?:\s+ignore)?\s+into|replace\s+into|update|delete\s+from|merge\s+into)\s+(?:only\s+)?([\w$."`]+)/i;
/** A warning each. */
const MOST_TABLES = 100;

/** The session of the transaction of `outbox.transaction` or `outbox.bind` around a call. */
type Ambient = () => Session | undefined;

/**
 * Warns of writes on another connection while a transaction of `outbox.transaction` or `outbox.bind` is around them, such as
 * `save()` of an injected repository: once for each table. Only query runners that are made inside one are looked at. Messages go
 * past their `query`.
 * @returns what looks at a query runner that was just made
 */
export function outsideWrites(ambient: Ambient, warn: (text: string) => void): (runner: QueryRunner) => void {
  const told = new Set<string>();
  return (runner) => {
    if (ambient() === undefined) return;
    const query = runner.query as (...args: unknown[]) => Promise<unknown>;
    const looked = function (this: QueryRunner, ...args: unknown[]): Promise<unknown> {
      const table = typeof args[0] === 'string' ? WRITE.exec(args[0])?.[1] : undefined;
      if (table !== undefined && !told.has(table) && told.size < MOST_TABLES && isOutside(this, ambient())) {
        told.add(table);
        warn(textOf(table));
      }
      return query.apply(this, args);
    };
    runner.query = looked as typeof runner.query;
  };
}

function isOutside(runner: QueryRunner, current: Session | undefined): boolean {
  return current !== undefined && !isWatchedBy(runner, current.watch);
}

function textOf(table: string): string {
  return (
    `inside outbox.transaction() a write to ${table} went over another connection: it is committed by itself, and stays when the ` +
    'transaction rolls back. Write through the manager of the transaction: manager.withRepository(repository).save(…). For injected ' +
    'repositories keep transactions with typeorm-transactional, or with nestjs-cls and its transactional plugin, and give currentTransaction'
  );
}
