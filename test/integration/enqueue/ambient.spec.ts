// @tier gate
import { AsyncLocalStorage } from 'node:async_hooks';
import { defer, from, lastValueFrom, map, mergeMap, type Observable } from 'rxjs';
import type { EntityManager } from 'typeorm';
import type { OutboxService } from '../../../lib/index.js';
import { createEnqueueDatabase, useEnqueueDatabase } from '../../support/enqueue-database.js';
import { refusal } from '../../support/enqueue.js';
import { describeOnEach } from '../../support/services.js';

const plain = (type: string) => ({ type, payload: 1 });

/** Of the transaction: on MariaDB and MySQL a variable has that of the session. */
const OF_INNODB = `select trx_isolation_level as level from information_schema.innodb_trx where trx_mysql_thread_id = connection_id()`;
const ISOLATION = {
  postgres: `select current_setting('transaction_isolation') as level`,
  mariadb: OF_INNODB,
  mysql: OF_INNODB,
};

describeOnEach([], 'the ambient transaction', (kind) => {
  const db = useEnqueueDatabase(kind, 1); // a pool of one: anything that takes a second connection hangs
  let outbox: OutboxService;
  /** Another library's ambient transaction. */
  const foreign = new AsyncLocalStorage<EntityManager>();

  beforeAll(() => void (outbox = db.outbox({ options: { currentTransaction: () => foreign.getStore() } })));

  it('commits what was enqueued anywhere below, with a pool of one connection', async () => {
    const service = async (): Promise<string> => outbox.enqueue(plain('deep'));
    const result = await outbox.transaction(async (manager) => {
      await db.addThing(manager);
      await Promise.all([service(), service()]);
      return 'result';
    });
    expect([result, await db.types(), await db.things()]).toEqual(['result', ['deep', 'deep'], 1]);
  });

  it('H12: is one for all outboxes on one DataSource: another one writes in it, and its own joins it', async () => {
    const other = db.outbox();
    await outbox.transaction(async () => {
      await other.enqueue(plain('a'));
      await other.transaction(async () => outbox.enqueue(plain('b')));
    });
    const failing = outbox.transaction(async () => {
      await other.enqueue(plain('c'));
      throw new Error('business');
    });
    await expect(failing).rejects.toThrow('business');
    expect((await db.types()).sort()).toEqual(['a', 'b']);
  });

  it('H12: is the one of currentTransaction also where that gives a Proxy of it', async () => {
    await outbox.transaction(async (manager) => {
      const runner = new Proxy(manager.queryRunner as object, {});
      const proxied = new Proxy(manager, {
        get: (of, name) => (name === 'queryRunner' ? runner : Reflect.get(of, name)),
      });
      await foreign.run(proxied, () => outbox.enqueue(plain('p')));
    });
    expect(await db.types()).toEqual(['p']);
  });

  it('hands a query that runs when it is awaited back as it is: it runs once', async () => {
    await db.dataSource.transaction(async (manager) => {
      // eslint-disable-next-line unicorn/no-thenable
      const lazy = { then: (...done: never[]) => db.addThing(manager).then(...done) } as PromiseLike<unknown>;
      const bound = outbox.bind(manager, () => lazy);
      expect(bound).toBe(lazy);
      await bound;
    });
    expect(await db.things()).toBe(1);
  });

  it('is joined by an inner outbox.transaction; nested makes a savepoint', async () => {
    await outbox.transaction(async (outer) => {
      await outbox.transaction(async (inner) => {
        expect(inner.queryRunner).toBe(outer.queryRunner);
        await outbox.enqueue(plain('joined'));
      });
      const nested = outbox.transaction(
        async () => {
          await outbox.enqueue(plain('dropped'));
          throw new Error('inner');
        },
        { nested: true },
      );
      await expect(nested).rejects.toThrow('inner');
      await outbox.transaction(() => outbox.enqueue(plain('kept')), { nested: true });
    });
    expect(await db.types()).toEqual(['joined', 'kept']);
  });

  it('has the isolation asked for; inside another it cannot be chosen', async () => {
    const isolation = await outbox.transaction(
      async (manager) => {
        await db.addThing(manager);
        return (await manager.query(ISOLATION[kind]))[0].level as string;
      },
      { isolation: 'SERIALIZABLE' },
    );
    expect(isolation.toLowerCase()).toBe('serializable');
    await outbox.transaction(async () => {
      const refused = await refusal(() => outbox.transaction(async () => 1, { isolation: 'SERIALIZABLE' }));
      expect(refused.code).toBe('INVALID_OPTIONS');
    });
  });

  it('ends with it: work that outlives it is refused, also when its runner begins another one', async () => {
    let release = (): void => undefined;
    const gate = new Promise<void>((resolve) => (release = resolve));
    const runner = db.dataSource.createQueryRunner();
    await runner.startTransaction();
    let late: Promise<{ code: string }> | undefined;
    await outbox.bind(runner, async () => {
      late = gate.then(() => refusal(() => outbox.enqueue(plain('late'))));
    });
    await runner.commitTransaction();
    await runner.startTransaction();
    release();
    expect((await late)?.code).toBe('TRANSACTION_REQUIRED');
    await runner.commitTransaction();
    await runner.release();
    expect(await db.rows()).toEqual([]);
  });

  it('H7: ends with its transaction also around a function that returns no Promise: its late work joins no other', async () => {
    const runner = db.dataSource.createQueryRunner();
    try {
      await runner.startTransaction();
      const late = outbox.bind(runner, () => AsyncLocalStorage.bind(() => outbox.enqueue(plain('late'))));
      const observable = outbox.bind(runner, () => defer(() => outbox.enqueue(plain('late'))));
      await outbox.bind(runner, () => outbox.enqueue(plain('in time')));
      await late();
      await runner.rollbackTransaction();
      await runner.startTransaction();
      expect((await refusal(late)).code).toBe('TRANSACTION_REQUIRED');
      expect((await refusal(() => lastValueFrom(observable))).code).toBe('TRANSACTION_REQUIRED');
      await outbox.bind(runner, () => outbox.enqueue(plain('its own')));
      await runner.commitTransaction();
    } finally {
      await runner.release();
    }
    expect(await db.types()).toEqual(['its own']);
  });

  it('of another library is found through currentTransaction', async () => {
    await db.dataSource.transaction((manager) => foreign.run(manager, () => outbox.enqueue(plain('foreign'))));
    await db.dataSource.transaction((manager) =>
      foreign.run(manager, () =>
        outbox.transaction(async (joined) => {
          expect(joined.queryRunner).toBe(manager.queryRunner);
          await outbox.enqueue(plain('joined'));
        }),
      ),
    );
    expect(await db.types()).toEqual(['foreign', 'joined']);
    expect((await refusal(() => foreign.run(db.dataSource.manager, () => outbox.enqueue(plain('x'))))).code).toBe(
      'TRANSACTION_REQUIRED',
    );
  });

  it('must be one: two different ones are refused, an explicit manager decides', async () => {
    const wide = await createEnqueueDatabase(kind, 2);
    try {
      const both = wide.outbox({ options: { currentTransaction: () => foreign.getStore() } });
      await wide.dataSource.transaction((other) =>
        both.transaction((manager) =>
          foreign.run(other, async () => {
            expect((await refusal(() => both.enqueue(plain('x')))).code).toBe('AMBIGUOUS_TRANSACTION');
            await both.enqueue(plain('explicit'), { manager });
          }),
        ),
      );
      expect(await wide.types()).toEqual(['explicit']);
    } finally {
      await wide.drop();
    }
  });

  it('an inner transaction of another kind does not get the outer’s messages by accident', async () => {
    const wide = await createEnqueueDatabase(kind, 2);
    try {
      const other = wide.outbox();
      await other.transaction(async () => {
        await wide.dataSource
          .transaction(async (inner) => {
            await other.enqueue(plain('inner'), { manager: inner });
            throw new Error('inner');
          })
          .catch(() => undefined);
        await other.enqueue(plain('outer'));
      });
      expect(await wide.types()).toEqual(['outer']);
    } finally {
      await wide.drop();
    }
  });

  it('an interceptor may return next.handle(): an Observable is subscribed to inside', async () => {
    const handler = (): Observable<string> => defer(() => from(outbox.enqueue(plain('handled'))));
    const interceptor = (next: { handle(): Observable<string> }): Promise<unknown> =>
      db.dataSource.transaction((manager) =>
        lastValueFrom(
          outbox
            .bind(manager, () => next.handle())
            .pipe(
              map((id) => id.length),
              mergeMap(async (length) => [length, await outbox.enqueue(plain('later'))]),
            ),
        ),
      );
    expect(await interceptor({ handle: handler })).toEqual([36, expect.any(String)]);
    expect(await db.types()).toEqual(['handled', 'later']);
    // The trap: a scope of one's own around the call alone is gone when somebody subscribes.
    const lost = db.dataSource.transaction((manager) => lastValueFrom(foreign.run(manager, handler)));
    expect((await refusal(() => lost)).code).toBe('TRANSACTION_REQUIRED');
  });
});
