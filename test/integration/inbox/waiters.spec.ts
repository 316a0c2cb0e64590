// @tier gate
import 'reflect-metadata';
import { DataSource, type EntityManager } from 'typeorm';
import type { INestApplicationContext } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { InboxService } from 'nestjs-outbox/inbox';
import { uuidV7 } from '../../../lib/message/uuid-v7.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { consumerModule, effectsOf, takeEffect } from '../../support/inbox.js';
import { describeWith, MYSQL_FAMILY } from '../../support/services.js';
import { until } from '../../support/until.js';

const WAITERS = 4;

for (const kind of MYSQL_FAMILY)
  describeWith(kind, `deliveries at once on ${kind}, of which the first fails`, () => {
    let database: TestDatabase;
    let app: INestApplicationContext;
    let db: DataSource;
    let inbox: InboxService;

    beforeEach(async () => {
      database = await createTestDatabase(kind);
      app = await NestFactory.createApplicationContext(consumerModule(database, { controllers: [] }), {
        logger: false,
      });
      [db, inbox] = [app.get(DataSource), app.get(InboxService)];
    });
    afterEach(async () => {
      await app?.close();
      await database?.drop();
    });

    /** The server renews its answer only when nobody asked for a tenth of a second. */
    const waiting = async (): Promise<number> => {
      const rows = (await db.query(
        `select count(*) as n from information_schema.innodb_trx where trx_state = 'LOCK WAIT' and trx_query like '%${new URL(database.url).pathname.slice(1)}%'`,
      )) as { n: unknown }[];
      return Number(rows[0]?.n);
    };
    /** The first holds the message until all others wait for it, and then rolls back. */
    const deliver = async (waiter: (id: string) => Promise<unknown>) => {
      const id = uuidV7();
      let fail = (): void => undefined;
      let first: Promise<unknown> | undefined;
      await new Promise<void>((holds) => {
        first = inbox.once(id, async (tx) => {
          await takeEffect(tx, 'first', id);
          await new Promise<void>((ends) => {
            fail = ends;
            holds();
          });
          throw new Error('no');
        });
      });
      const others = Array.from({ length: WAITERS }, () => waiter(id));
      for (const each of others) each.catch(() => undefined);
      await until(async () => (await waiting()) === WAITERS, 60_000, 200);
      fail();
      await expect(first).rejects.toThrow('no');
      return { id, outcomes: await Promise.allSettled(others) };
    };
    const statuses = (outcomes: PromiseSettledResult<unknown>[]) =>
      outcomes
        .map((each) => (each.status === 'fulfilled' ? (each.value as { status: string }).status : each.reason))
        .sort();

    it('lets one of them in, and tells the others that it is a duplicate, in transactions of its own', async () => {
      const { id, outcomes } = await deliver((each) => inbox.once(each, (tx) => takeEffect(tx, 'waiter', each)));
      expect(statuses(outcomes)).toEqual([...Array.from({ length: WAITERS - 1 }, () => 'duplicate'), 'handled']);
      expect(await effectsOf(app)).toEqual([`waiter ${id}`]);
      const [counts] = inbox.counts();
      expect(counts).toMatchObject({ handled: 1, duplicate: WAITERS - 1, busy: 0, failed: 1 });
      expect(counts?.retried).toBeGreaterThan(0);
    });

    it('says in a transaction of the caller that it is worth another try', async () => {
      const { id, outcomes } = await deliver((each) =>
        db.transaction((tx: EntityManager) => inbox.once(each, { tx }, () => takeEffect(tx, 'waiter', each))),
      );
      const failed = outcomes.flatMap((each) => (each.status === 'rejected' ? [each.reason as { code: string }] : []));
      expect(failed.length).toBeGreaterThan(0);
      for (const error of failed) expect(error).toMatchObject({ code: 'TRANSACTION_CONFLICT', cause: { errno: 1213 } });
      expect(await effectsOf(app)).toEqual([`waiter ${id}`]);
      expect(inbox.counts()).toMatchObject([{ handled: 1, failed: 1 + failed.length, retried: 0 }]);
    });

    it('tells of a first that takes too long as of one that is in progress, and leaves the session its patience', async () => {
      const id = uuidV7();
      await inbox.once(id, async () => {
        const second = db.transaction(async (tx: EntityManager) => {
          await tx.query('set session innodb_lock_wait_timeout = 1');
          await inbox.once(id, { tx }, () => undefined);
        });
        await expect(second).rejects.toMatchObject({ code: 'IN_PROGRESS' });
      });
    });

    it('says why a connection was lost while it refused to wait', async () => {
      const id = uuidV7();
      await inbox.once(id, async () => {
        const second = db.transaction(async (tx: EntityManager) => {
          const [{ me }] = (await tx.query('select connection_id() as me')) as [{ me: number }];
          const refused = inbox.once(id, { tx, onConcurrent: 'refuse' }, () => undefined);
          refused.catch(() => undefined);
          await until(async () => (await waiting()) === 1, 60_000, 200);
          await db.query(`kill ${me}`);
          await refused;
        });
        await expect(second).rejects.toMatchObject({ message: expect.not.stringContaining('outbox_lock_wait') });
        await expect(second).rejects.toMatchObject({
          message: expect.stringMatching(/lost|closed|interrupted|killed/i),
        });
      });
    });
  });
