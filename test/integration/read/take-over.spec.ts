import type { OutboxStore } from '../../../lib/index.js';
import { EventEmitter, once } from 'node:events';
import { ScriptedTransport, wrapped } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';
import { withDeadRows } from './dead-rows.js';

/** A fifth of a second and more, where all of them are walked over in one statement. */
const DEAD = 500_000;
/** So many numbers of a bucket are read without a limit: milliseconds, also if all of them are dead. */
const UNTIMED = 65_536;

describeWith('postgres', 'a take-over while a snapshot is held that keeps half a million dead rows', () => {
  const dead = withDeadRows('postgres', async (dataSource) => {
    await dataSource.query(`insert into outbox_ready (transport, bucket, id, topic, type, payload)
      select 0, g % 2, gen_random_uuid(), 't', 't', '' from generate_series(1, ${DEAD}) g`);
  });

  it('Q5: dead rows are walked over about once, in reads of milliseconds, and what is behind them is published, in order', async () => {
    const texts = Array.from({ length: 20 }, (_, n) => String(n));
    for (const text of texts) await dead.harness.enqueue([{ bucket: 1, key: 'k', payload: Buffer.from(text) }]);
    const transport = new ScriptedTransport();
    const unlimited: unknown[] = [];
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        fetch(request) {
          const isOver = request.positions.some(({ bucket, after }) => bucket < 2 && Number(after) < DEAD - UNTIMED);
          if (isOver && request.within === undefined) unlimited.push(request.positions);
          return store.ready.fetch(request);
        },
      });
    await dead.harness.relay({ default: transport }, {}, { wrapStore }).dispatcher.start();
    await transport.until(() => transport.published.length >= texts.length, 60_000);
    expect(transport.texts).toEqual(texts);
    expect(unlimited).toEqual([]);
  });

  it('Q7: a live row below the dead ones is published at once, and each of these is walked over once, in reads of milliseconds', async () => {
    await dead.harness.dataSource.query(`insert into outbox_ready (transport, bucket, seq, id, topic, type, payload)
      overriding system value select 0, g, 1, gen_random_uuid(), 't', 't', 'low' from generate_series(0, 1) g`);
    const transport = new ScriptedTransport();
    const unlimited: unknown[] = [];
    let walked = 0;
    let reads = 0;
    const passed = new EventEmitter();
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        async fetch(request) {
          const { positions, within } = request;
          const ofDead = positions.filter(({ bucket }) => bucket < 2);
          const overDead = ofDead.map(({ after, upTo }) =>
            Math.max(0, Math.min(Number(upTo ?? Infinity), DEAD) - Number(after)),
          );
          // The server gives up whatever may meet many of them.
          if (within === undefined && Math.max(0, ...overDead) > UNTIMED) unlimited.push(positions);
          const found = await store.ready.fetch(request);
          if ((reads += 1) > 1) walked += overDead.reduce((sum, one) => sum + one, 0); // the first tells where the end is
          if (positions.every(({ after }) => Number(after) >= DEAD)) passed.emit('it');
          return found;
        },
      });
    const isPassed = once(passed, 'it', { signal: AbortSignal.timeout(60_000) });
    await dead.harness.relay({ default: transport }, {}, { wrapStore }).dispatcher.start();
    await transport.until(() => transport.published.length === 2, 60_000);
    await isPassed;
    expect(transport.texts).toEqual(['low', 'low']);
    expect(walked).toBeLessThanOrEqual(2.5 * DEAD);
    expect(unlimited).toEqual([]);
  });

  it('Q7: a read that is given up after milliseconds leaves its session as it was', async () => {
    const request = { transport: 0, positions: [{ bucket: 0, after: '0' }], perBucket: 16, limit: 100 };
    const { session } = await dead.harness.store.ready.fetch({ ...request, positions: [] });
    await expect(dead.harness.store.ready.fetch({ ...request, within: 1 })).rejects.toMatchObject({ code: '57014' });
    expect(await dead.harness.store.ready.fetch(request)).toMatchObject({ session, messages: [] });
  });
});
