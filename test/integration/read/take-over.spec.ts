import type { OutboxStore } from '../../../lib/index.js';
import type { ReadRange, ReadyStore } from '../../../lib/store/ready-store.js';
import { EventEmitter, once } from 'node:events';
import { DataSource } from 'typeorm';
import { Reader } from '../../../lib/relay/read/reader.js';
import { SnapshotLowWaterMark } from '../../../lib/relay/read/snapshot-low-water-mark.js';
import { systemClock } from '../../../lib/time/clock.js';
import { createHarness, ScriptedTransport, wrapped, type Harness } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';

/** A fifth of a second and more, where all of them are walked over in one statement. */
const DEAD = 500_000;
/** So many numbers of a bucket are read without a limit: milliseconds, also if all of them are dead. */
const UNTIMED = 65_536;

describeWith('postgres', 'a take-over while a snapshot is held that keeps half a million dead rows', () => {
  let harness: Harness;
  const closing: (() => unknown)[] = [];
  beforeEach(async () => {
    harness = await createHarness('postgres', { pollInterval: 50 });
    closing.push(() => harness.close());
    const holder = await new DataSource(harness.database.options).initialize();
    closing.push(() => holder.destroy());
    const runner = holder.createQueryRunner();
    await runner.startTransaction('REPEATABLE READ');
    await runner.query('select count(*) from outbox_ready');
    closing.push(() => runner.rollbackTransaction().then(() => runner.release()));
    await harness.dataSource.query(`insert into outbox_ready (transport, bucket, id, topic, type, payload)
      select 0, g % 2, gen_random_uuid(), 't', 't', '' from generate_series(1, ${DEAD}) g`);
    await harness.dataSource.query('delete from outbox_ready');
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  it('Q5: nothing is fetched from the beginning, and what is behind the dead rows is published, in order', async () => {
    const texts = Array.from({ length: 20 }, (_, n) => String(n));
    for (const text of texts) await harness.enqueue([{ bucket: 1, key: 'k', payload: Buffer.from(text) }]);
    const transport = new ScriptedTransport();
    const from: number[] = [];
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        fetch(request) {
          from.push(...request.positions.map(({ after }) => Number(after)));
          return store.ready.fetch(request);
        },
      });
    await harness.relay({ default: transport }, {}, { wrapStore }).dispatcher.start();
    await transport.until(() => transport.published.length >= texts.length, 60_000);
    expect(transport.texts).toEqual(texts);
    expect(Math.min(...from)).toBe(DEAD);
  });

  it('Q7: a live row below the dead ones is published at once, and each of these is walked over once, in reads of milliseconds', async () => {
    await harness.dataSource.query(`insert into outbox_ready (transport, bucket, seq, id, topic, type, payload)
      overriding system value select 0, g, 1, gen_random_uuid(), 't', 't', 'low' from generate_series(0, 1) g`);
    const transport = new ScriptedTransport();
    const unlimited: unknown[] = [];
    let walked = 0;
    const passed = new EventEmitter();
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        async fetch(request) {
          const { positions, within } = request;
          const overDead = positions.map(({ after, upTo }) =>
            Math.max(0, Math.min(Number(upTo ?? Infinity), DEAD) - Number(after)),
          );
          // The server gives up whatever may meet many of them.
          if (within === undefined && Math.max(...overDead) > UNTIMED) unlimited.push(positions);
          const found = await store.ready.fetch(request);
          walked += overDead.reduce((sum, one) => sum + one, 0);
          if (positions.every(({ after }) => Number(after) >= DEAD)) passed.emit('it');
          return found;
        },
      });
    const isPassed = once(passed, 'it', { signal: AbortSignal.timeout(60_000) });
    await harness.relay({ default: transport }, {}, { wrapStore }).dispatcher.start();
    await transport.until(() => transport.published.length === 2, 60_000);
    await isPassed;
    expect(transport.texts).toEqual(['low', 'low']);
    // Each read walked over all of them before, for as long as no newer row came.
    expect(walked).toBeLessThanOrEqual(2 * DEAD);
    expect(unlimited).toEqual([]);
  });

  it('Q10: below a sequence that was set back, new rows are read in milliseconds, and what stands above the dead ones once', async () => {
    await harness.dataSource.query(`insert into outbox_ready (transport, bucket, seq, id, topic, type, payload)
      overriding system value select 0, 0, ${DEAD} + g, gen_random_uuid(), 't', 't', ('above ' || g)::bytea from generate_series(1, 2) g`);
    await harness.dataSource.query(`select setval('outbox_ready_seq_seq', 1, false)`);
    const unlimited: unknown[] = [];
    let cancelled = 0;
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        async fetch(asked) {
          const overDead = asked.positions.filter(
            ({ bucket, after, upTo }) => bucket < 2 && +after < DEAD && upTo === undefined,
          );
          if (overDead.length === 0) return store.ready.fetch(asked);
          if (asked.within === undefined) unlimited.push(overDead);
          cancelled += 1;
          return store.ready.fetch({ ...asked, within: 1 }); // nobody walks over them in 1 ms, as nobody over many more of them in 50
        },
      });
    const transport = new ScriptedTransport();
    await harness.relay({ default: transport }, {}, { wrapStore }).dispatcher.start();
    const texts = Array.from({ length: 20 }, (_, n) => String(n));
    for (const text of texts) {
      await harness.enqueue([{ bucket: 1, key: 'k', payload: Buffer.from(text) }]);
      await transport.until(() => transport.texts.includes(text), 60_000);
    }
    await transport.until(() => transport.published.length === texts.length + 2, 60_000);
    expect(transport.texts.filter((text) => !text.startsWith('above'))).toEqual(texts);
    expect(transport.texts.filter((text) => text.startsWith('above'))).toEqual(['above 1', 'above 2']);
    expect(unlimited).toEqual([]);
    expect(cancelled).toBeGreaterThan(0);
  });

  it('Q7: a read that is given up after milliseconds leaves its session as it was', async () => {
    const request = { transport: 0, positions: [{ bucket: 0, after: '0' }], perBucket: 16, limit: 100 };
    const { session } = await harness.store.ready.fetch({ ...request, positions: [] });
    await expect(harness.store.ready.fetch({ ...request, within: 1 })).rejects.toMatchObject({ code: '57014' });
    expect(await harness.store.ready.fetch(request)).toMatchObject({ session, messages: [] });
  });

  it('Q5: a bucket that is ours already is read between two looks at the one that is gained', async () => {
    // A quick server would find the row in one look.
    const { lowest } = harness.store.ready as Required<ReadyStore>;
    const isLong = ({ bucket, after, upTo }: ReadRange): boolean =>
      bucket === 1 && Number(upTo) - Number(after) > 20_000;
    const store = wrapped(harness.store, {
      lowest: async (transport, ranges, ms) => {
        if (ranges.some(isLong)) throw Object.assign(new Error('statement timeout'), { code: '57014' });
        return lowest.call(harness.store.ready, transport, ranges, ms);
      },
    });
    const reader = new Reader(store.ready, 0, new SnapshotLowWaterMark(), systemClock, () => undefined);
    reader.add(2); // of which nothing is dead
    await harness.enqueue([{ bucket: 1, payload: Buffer.from('gained') }]);
    const read = async (): Promise<string[]> =>
      (await reader.read(100)).messages.map(({ payload }) => String(payload)).sort();
    // A transaction that is open anywhere on the server may put this off by a read.
    do expect(await read()).toEqual([]);
    while (!reader.heads.has(2));
    reader.add(1);
    let reads = 0;
    for (let found: string[] = []; !found.includes('gained'); reads += 1) {
      await harness.enqueue([{ bucket: 2, payload: Buffer.from(`${reads}`) }]);
      found = await read();
      expect(found.filter((text) => text !== 'gained')).toEqual([`${reads}`]);
    }
    expect(reads).toBeGreaterThan(5);
  });
});
