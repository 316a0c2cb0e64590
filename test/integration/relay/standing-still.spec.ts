import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { leave } from '../../../lib/testing/store-contract/harness.js';
import type { OutboxDispatcher } from '../../../lib/index.js';
import { systemClock } from '../../../lib/time/clock.js';
import { reportOf } from '../../../lib/nest/report.js';
import { openStore } from '../../support/open-store.js';
import { series } from '../../support/databases.js';
import { createHarness, patient, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';
import { textsOf } from '../../support/reasons.js';

const LEASE = 30_000;
const HOUR = 3_600_000;
const BUCKETS = 4;
const NO_RELAY = {
  status: () => ({ running: false, storeDownFor: null, transports: [] }) as never,
  relays: [],
};

describe.each(DATABASES)('%s: ready messages that stand still', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    let ahead = 0;
    beforeEach(async () => {
      harness = await createHarness(kind, { buckets: BUCKETS, lease: LEASE });
      ahead = 0;
    });
    afterEach(() => harness.close());

    /** What a process says whose time is told by the test; without a relay of its own unless there is one. */
    function process(
      dispatcher: Pick<OutboxDispatcher, 'status' | 'relays'> = NO_RELAY,
      mode = false,
      store = patient(harness.store),
    ) {
      const clock = { ...systemClock, monotonic: () => ahead, after: () => () => undefined };
      const options = { ...harness.options, relay: mode };
      const { health } = reportOf({ store, dispatcher, options, transportIds: harness.transportIds, clock });
      return async (ms = 0) => {
        ahead += ms;
        const told = await health();
        return [told.status, ...textsOf(told)];
      };
    }
    /** An instance that has leased these buckets, and says that it lives. */
    async function owner(only: readonly number[], ms = HOUR): Promise<string> {
      const name = randomUUID();
      await harness.store.leases.acquire({ owner: name, leaseMs: ms, transport: 0, limit: BUCKETS, only });
      await harness.store.leases.beat({ owner: name, transports: [0], info: 'host pid 1' }, ms);
      return name;
    }
    const enqueue = async (...buckets: number[]) => harness.enqueue(buckets.map((bucket) => ({ bucket })));
    const remove = (...ids: string[]) =>
      Promise.all(ids.map((id) => harness.dataSource.query(`delete from outbox_ready where id = '${id}'`)));

    it('S6: are told after two leases, with whose lease it is, and no more once one of them moves', async () => {
      const [id = '', next = ''] = await enqueue(1, 2);
      const name = await owner([0, 1, 2, 3]);
      const ask = process();
      expect(await ask()).toEqual(['up']);
      expect(await ask(LEASE)).toEqual(['up']);
      expect(await ask(LEASE)).toEqual([
        'degraded',
        expect.stringMatching(
          new RegExp(
            `^Messages for 'default' are ready, and none has moved for 1m: (${id}|${next}) is the first of bucket [12], ready for \\S+; instance ${name} has leased the bucket, for \\d+[smh] more\\.$`,
          ),
        ),
      ]);
      await remove(id);
      expect(await ask(1_000)).toEqual(['up']);
      await enqueue(3);
      await remove(next);
      expect(await ask(LEASE)).toEqual(['up']);
      expect(await ask(LEASE)).toEqual(['up']);
      expect(await ask(LEASE)).toEqual(['degraded', expect.stringContaining('bucket 3')]);
    });

    it('S7: one bucket that nobody has leased is told, while others go out; one that is another instance’s is slow', async () => {
      const ask = process();
      const name = await owner([0, 2, 3]);
      const [stuck = ''] = await enqueue(1, 2);
      await ask();
      for (let i = 0; i < 4; i++) {
        const [head = ''] = await enqueue(3);
        await ask(LEASE / 4);
        await remove(head);
        expect((await ask(LEASE / 4))[0]).toBe(i < 3 ? 'up' : 'degraded');
      }
      expect(await ask()).toEqual([
        'degraded',
        expect.stringMatching(
          new RegExp(
            `^A message for 'default' has not moved for 1m while others go out: ${stuck} is the first of bucket 1, ready for \\S+; nobody has leased the bucket\\.$`,
          ),
        ),
      ]);
      await leave(harness.store, name);
      expect(await ask(1_000)).toEqual(['down', expect.stringContaining('no live relay publishes')]);
    });

    it('S8: a relay that has leased none of the buckets with messages says so soon: whoever left them may be gone', async () => {
      const gone = await owner([0, 1, 2, 3]);
      const { dispatcher } = harness.relay({ default: new ScriptedTransport() });
      await dispatcher.start();
      await until(async () => (await harness.store.leases.living()).instances.length === 2); // it told that it is there
      await enqueue(1, 2);
      const ask = process(dispatcher, true);
      expect(await ask()).toEqual(['up']);
      expect(await ask(10_000)).toEqual(['up']);
      expect(await ask(5_000)).toEqual(['degraded', expect.stringContaining(`instance ${gone} has leased the bucket`)]);
      await leave(harness.store, gone);
      expect(await ask(1_000)).toEqual([
        'degraded',
        expect.stringMatching(/instance \S+, which has gone silent, has leased the bucket, for .* more \(breakLeases/),
      ]);
    });

    it('S6: a relay that publishes is up, also under a backlog that it drains slowly', async () => {
      const transport = new ScriptedTransport();
      transport.behave = async () => {
        await sleep(20);
        return { ok: true };
      };
      const { dispatcher } = harness.relay({ default: transport }, { batchSize: 10, batchesInFlight: 1 });
      await dispatcher.start();
      await until(async () => (await harness.store.leases.living()).instances.length === 1);
      await harness.enqueue(Array.from({ length: 1_000 }, (_, i) => ({ bucket: i % BUCKETS })));
      const ask = process(dispatcher, true);
      for (let i = 1; i <= 20; i++) {
        expect(await ask(LEASE / 5)).toEqual(['up']);
        await until(() => transport.published.length >= 40 * i);
      }
    });

    it('S9: a look that takes too long is cancelled, and says so; it is not repeated at once', async () => {
      const { database, ...settings } = harness.options;
      // Nothing else ends what it asks for.
      const store = openStore(harness.dataSource, { ...settings, options: database, statementTimeout: 600_000 });
      let looks = 0;
      const { admin } = store;
      const { stats } = admin;
      const untilCounted = patient(store).admin.stats;
      admin.stats = (...given) => ((looks += 1), stats.apply(admin, given));
      const ask = process(NO_RELAY, false, store);
      await owner([0, 1, 2, 3]);
      const runner = harness.dataSource.createQueryRunner();
      await runner.connect();
      if (kind === 'postgres') await runner.startTransaction();
      await runner.query(kind === 'postgres' ? 'lock table outbox_ready' : 'lock tables outbox_ready write');
      const late = ['degraded', 'The database has not counted the messages within 1s.'];
      expect(await ask()).toEqual(late);
      expect(await ask(5_000)).toEqual(late);
      expect(looks).toBe(1);
      await (kind === 'postgres' ? runner.rollbackTransaction() : runner.query('unlock tables'));
      await runner.release();
      admin.stats = untilCounted;
      expect(await ask(5_001)).toEqual(['up']);
      await store.close();
    });

    it('S9: counts stop near a thousand, and say so', async () => {
      const lease = { transport: 0, bucket: 0, epoch: '1' };
      await harness.store.leases.acquire({ owner: 'me', leaseMs: HOUR, transport: 0, limit: 1, only: [0] });
      await harness.store.leases.beat({ owner: 'me', transports: [0], info: '' }, HOUR);
      const some =
        kind === 'postgres' ? `gen_random_uuid() from generate_series(1, 3000)` : `uuid() from ${series(kind, 3_000)}`;
      const columns = 'transport, bucket, topic, type, id';
      await harness.dataSource.query(`insert into outbox_ready (${columns}) select 0, 0, 't', 't', ${some}`);
      await harness.dataSource.query(
        `insert into outbox_parked (state, died_at, ${columns}) select 4, ${kind === 'postgres' ? 'now()' : 'utc_timestamp()'}, 0, 0, 't', 't', ${some}`,
      );
      const [status, ...texts] = await process()();
      expect([status, texts]).toEqual([
        'degraded',
        ["1000 or more dead messages for 'default' wait for requeue or discard."],
      ]);
      const stats = await harness.store.admin.stats();
      expect(stats).toMatchObject([{ ready: 3_000, dead: 3_000 }]);
      await harness.store.leases.giveBack('me', [lease]);
    });
  });
});
