// @tier gate
import { randomUUID } from 'node:crypto';
import { DataSource } from 'typeorm';
import {
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  type PublishResult,
  OutboxCleaner,
  type OutboxMessage,
} from '../../../lib/index.js';
import type { ResolvedOptions } from '../../../lib/outbox.options.js';
import type { Cleaning, CleanStore } from '../../../lib/store/admin-store.js';
import type { Lease } from '../../../lib/store/lease-store.js';
import type { ParkEntry } from '../../../lib/store/ready-store.js';
import { build, quiet, typeOrm, useApplications } from '../../nest/support/app.js';
import { createHarness, RecordedHooks, ScriptedTransport, type Harness } from '../../support/relay.js';
import { FakeClock } from '../../../lib/testing/fake-clock.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';

const HOUR = 3_600_000;
const OLD = `'2020-01-01 00:00:00'`;

type Retention = Pick<ResolvedOptions['retention'], 'published' | 'dead' | 'dedup'>;

describe.each(DATABASES)('OutboxCleaner', (kind) => {
  describeWith(kind, `on ${kind}`, () => {
    let harness: Harness;
    let leases: Lease[];
    let hooks: RecordedHooks;
    const owner = randomUUID();

    beforeEach(async () => {
      harness = await createHarness(kind);
      hooks = new RecordedHooks();
      leases = await harness.store.leases.acquire({ owner, leaseMs: HOUR, transport: 0, limit: 32 });
    });
    afterEach(() => harness.close());

    const cleaner = (retention: Retention, announces = false) =>
      new OutboxCleaner(harness.store, hooks, { ...harness.options.retention, ...retention }, announces);
    /** Its batches take three seconds, nine, and no time. */
    const resting = (clock: FakeClock, took = [3_000, 9_000]) => {
      const { cleaner: own } = harness.store;
      const clean: typeof own.clean = async (...asked) => {
        const done = await own.clean(...asked);
        await clock.advance(took.shift() ?? 0);
        return done;
      };
      return new OutboxCleaner({ cleaner: { clean } }, hooks, harness.options.retention, false, clock);
    };
    const age = async (table: string, columns: readonly string[], to = OLD): Promise<void> => {
      await harness.dataSource.query(
        `update outbox_${table} set ${columns.map((column) => `${column} = ${to}`).join(', ')}`,
      );
    };
    const counts = async (): Promise<number[]> =>
      Promise.all(['archive', 'parked', 'dedup', 'ready'].map((table) => harness.count(table)));
    const ready = async (): Promise<OutboxMessage[]> => {
      const positions = leases.map(({ bucket }) => ({ bucket, after: '0' }));
      return (await harness.store.ready.fetch({ transport: 0, positions, perBucket: 10_000, limit: 10_000 })).messages;
    };
    const park = async (messages: readonly OutboxMessage[], entry: Pick<ParkEntry, 'state'> & Partial<ParkEntry>) => {
      const common = { blocks: entry.state !== 'dead', attempts: 1, delay: null, error: 'no' };
      const entries = messages.map(({ id, bucket, seq }) => ({ id, bucket, seq, ...common, ...entry }));
      expect((await harness.store.ready.park(owner, leases, entries)).affected).toBe(messages.length);
    };
    const publish = async (messages: readonly OutboxMessage[]): Promise<void> => {
      await harness.store.ready.settle(0, messages, 'archive');
    };
    const old = (hours: number): string =>
      kind === 'postgres' ? `now() - interval '${hours} hours'` : `utc_timestamp(6) - interval ${hours} hour`;

    it('means the same instant from the first batch to the last', async () => {
      const before = Date.now() - HOUR;
      const ages: number[] = [];
      const store = { ...harness.store, cleaner: Object.create(harness.store.cleaner) as CleanStore };
      store.cleaner.clean = async (_, each, limit) => {
        ages.push(each);
        jest.spyOn(Date, 'now').mockReturnValue(Date.now() + 60_000);
        return { removed: limit, looked: ages.length < 3 ? limit : 0 };
      };
      const { retention } = harness.options;
      await new OutboxCleaner(store, hooks, retention, false).runOnce({ before: new Date(before) });
      jest.restoreAllMocks();
      expect(ages.map((each) => Math.round((each - HOUR) / 60_000))).toEqual([0, 1, 2]);
    });

    it('cleans what it is asked for, up to a limit, and nothing else', async () => {
      await harness.enqueue(Array.from({ length: 6 }, (_, i) => ({ dedupKey: `d${i}` })));
      const messages = await ready();
      await publish(messages.slice(0, 3));
      await park(messages.slice(3, 5), { state: 'dead' });
      await age('archive', ['published_at']);
      await age('parked', ['died_at']);
      await age('dedup', ['created_at']);
      const never = cleaner({ published: 1e12, dead: null, dedup: 1e12 });
      const before = new Date('2021-01-01');
      expect(await never.runOnce({ before: new Date('2019-01-01'), includeDead: true })).toMatchObject({
        published: 0,
        dead: 0,
      });
      expect(await never.runOnce({ before, limit: 2 })).toEqual({ published: 2, dead: 0, dedup: 0 });
      expect(await never.runOnce({ before, limit: 1, includeDead: 'only' })).toEqual({
        published: 0,
        dead: 1,
        dedup: 0,
      });
      expect(await never.runOnce({ before, limit: 1, includeDead: true })).toEqual({ published: 1, dead: 1, dedup: 0 });
      expect(await counts()).toEqual([0, 0, 6, 1]);
      for (const request of [
        { before: 'yesterday' },
        { before: new Date(NaN) },
        { before, limit: 0 },
        { before, limit: 1.5 },
        { before, includeDead: 'yes' },
      ]) {
        await expect(never.runOnce(request as never)).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
      }
    });

    it('rests between two batches for as long as one took, at most 5 s, so that writers have the disk, and not after the last one', async () => {
      await harness.enqueue(Array.from({ length: 2_500 }, (_, i) => ({ key: `k${i % 9}` })));
      await publish(await ready());
      await age('archive', ['published_at']);
      const clock = new FakeClock();
      const pass = resting(clock).runOnce();
      for (const [batch, rest] of [3_000, 5_000].entries()) {
        await until(() => clock.pending === 1);
        expect([await harness.count('archive'), clock.nextIn]).toEqual([1_500 - batch * 1_000, rest]);
        await clock.advance(rest);
      }
      expect(await pass).toEqual({ published: 2_500, dead: 0, dedup: 0 });
      expect(clock.pending).toBe(0);
    });

    it('ends a pass that rests when it is told to, with what it has done', async () => {
      await harness.enqueue(Array.from({ length: 1_500 }, (_, i) => ({ key: `k${i % 9}` })));
      await publish(await ready());
      await age('archive', ['published_at']);
      const clock = new FakeClock();
      const stop = new AbortController();
      const pass = resting(clock).runOnce(undefined, { signal: stop.signal });
      await until(() => clock.pending === 1);
      stop.abort();
      expect(await pass).toEqual({ published: 1_000, dead: 0, dedup: 0 });
      expect([await harness.count('archive'), clock.pending]).toEqual([500, 0]);
    });

    it('leaves what is not final, of any age, with any setting', async () => {
      await harness.enqueue([
        { payload: Buffer.from('waiting'), key: 'a' },
        { payload: Buffer.from('blocked'), key: 'a' },
        { payload: Buffer.from('ready'), dedupKey: 'ready' },
        { payload: Buffer.from('scheduled'), delay: HOUR, dedupKey: 'scheduled' },
      ]);
      for (const state of ['waiting', 'blocked'] as const) {
        const messages = (await ready()).filter(({ payload }) => String(payload) === state);
        await park(messages, { state, delay: state === 'waiting' ? HOUR : null });
      }
      await age('ready', ['created_at']);
      await age('parked', ['created_at', 'parked_at']);
      await age('dedup', ['created_at']);
      const before = await counts();
      expect(before).toEqual([0, 3, 2, 1]);
      for (const announces of [false, true]) {
        const report = await cleaner({ published: 0, dead: 0, dedup: 0 }, announces).runOnce();
        expect(report).toEqual({ published: 0, dead: 0, dedup: 0 });
      }
      expect(await counts()).toEqual(before);
      expect(hooks.of('cleaned')).toEqual([]);
    });

    it('E5: goes on in batches until nothing old is left', async () => {
      await harness.enqueue(Array.from({ length: 5_000 }, () => ({})));
      await publish(await ready());
      await age('archive', ['published_at']);
      await harness.enqueue([{}, {}]);
      await publish(await ready());
      const batches: number[] = [];
      const store = {
        clean: async (what: Cleaning, older: number, limit: number) => {
          const report = await harness.store.cleaner.clean(what, older, limit);
          if (what === 'archive') batches.push(report.removed);
          return report;
        },
      };
      const retention = { ...harness.options.retention, published: HOUR };
      const report = await new OutboxCleaner({ cleaner: store }, hooks, retention, false).runOnce();
      expect(report).toEqual({ published: 5_000, dead: 0, dedup: 0 });
      expect(batches.length).toBeGreaterThan(5);
      expect(Math.max(...batches)).toBeLessThanOrEqual(1_000);
      expect(await harness.count('archive')).toBe(2);
      expect(hooks.of('cleaned')).toEqual([report]);
    });

    /** One archived, one dead and one settled message with a dedup key, all of them two hours old. */
    const final = async (): Promise<void> => {
      await harness.enqueue([{ dedupKey: 'd' }]);
      await publish(await ready());
      await harness.enqueue([{}]);
      await park(await ready(), { state: 'dead' });
      await age('archive', ['published_at'], old(2));
      await age('parked', ['created_at', 'parked_at', 'died_at'], old(2));
      await age('dedup', ['created_at'], old(2));
      expect(await counts()).toEqual([1, 1, 1, 0]);
    };

    it('keeps each kind for its own time; dead ones for ever when told so', async () => {
      await final();
      const kept = { published: 3 * HOUR, dead: 3 * HOUR, dedup: 3 * HOUR };
      expect(await cleaner(kept).runOnce()).toEqual({ published: 0, dead: 0, dedup: 0 });
      expect(await cleaner({ ...kept, dead: null }).runOnce()).toEqual({ published: 0, dead: 0, dedup: 0 });
      expect(await counts()).toEqual([1, 1, 1, 0]);
      expect(await cleaner({ ...kept, published: HOUR }).runOnce()).toEqual({ published: 1, dead: 0, dedup: 0 });
      expect(await counts()).toEqual([0, 1, 1, 0]);
      expect(await cleaner({ ...kept, dead: HOUR }).runOnce()).toEqual({ published: 0, dead: 1, dedup: 0 });
      expect(await counts()).toEqual([0, 0, 1, 0]);
      expect(await cleaner({ ...kept, dedup: HOUR }).runOnce()).toEqual({ published: 0, dead: 0, dedup: 1 });
      expect(await counts()).toEqual([0, 0, 0, 0]);
    });

    it('cleans the other kinds when one fails, and throws with what it has done', async () => {
      await final();
      const rename = (from: string, to: string) => harness.dataSource.query(`alter table ${from} rename to ${to}`);
      await rename('outbox_archive', 'away');
      const report = { published: 0, dead: 1, dedup: 1 };
      const retention = { published: HOUR, dead: HOUR, dedup: HOUR };
      await expect(cleaner(retention).runOnce()).rejects.toMatchObject({ report, errors: [expect.any(Error)] });
      expect(hooks.of('cleaned')).toEqual([report]);
      await rename('away', 'outbox_archive');
      expect(await counts()).toEqual([1, 0, 0, 0]);
      expect(await cleaner(retention).runOnce()).toEqual({ published: 1, dead: 0, dedup: 0 });
    });

    it('runs in several instances at once and counts each row once', async () => {
      await harness.enqueue(Array.from({ length: 3_000 }, () => ({})));
      await publish(await ready());
      await age('archive', ['published_at']);
      const reports = await Promise.all([1, 2].map(() => cleaner({ published: 0, dead: null, dedup: HOUR }).runOnce()));
      expect(reports.reduce((sum, { published }) => sum + published, 0)).toBe(3_000);
      expect(await harness.count('archive')).toBe(0);
    });
  });

  describeWith(kind, `with a dead-letter hook on ${kind}`, () => {
    const { applications, database } = useApplications(kind);

    it('keeps a dead letter until the hook was told of it', async () => {
      let listens = false;
      const told: string[] = [];
      const transport = new ScriptedTransport();
      transport.behave = (): PublishResult => ({ ok: false, blame: 'message', final: true, error: new Error('no') });
      const options = quiet({
        relay: 'manual',
        transports: { default: transport },
        retention: { dead: '1s' },
        deadLetter: ({ message }) => {
          if (!listens) throw new Error('not now');
          told.push(message.id);
        },
      });
      const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(options)]));
      const id = await app.get(OutboxService).enqueueOutsideTransaction({ type: 't', key: null, payload: {} });
      await app.get(OutboxDispatcher).runOnce();
      await app.get(DataSource).query(`update outbox_parked set died_at = ${OLD}`);
      expect((await app.get(OutboxCleaner).runOnce()).dead).toBe(0);
      listens = true;
      await app.get(OutboxDispatcher).runOnce();
      expect(told).toEqual([id]);
      expect((await app.get(OutboxCleaner).runOnce()).dead).toBe(1);
    });
  });
});
