import type { OutboxDispatcher, OutboxOptions, PublishResult } from '../../../lib/index.js';
import { pausesOf } from '../../support/operator.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';

const ALL = { transport: 0, topic: null, key: null };
const ACTION = { scope: ALL, actor: 'ana', filter: '{}' } as const;

const MODES: readonly (readonly [string, Partial<OutboxOptions>])[] = [
  ['leases', { coordination: 'buckets' }],
  ['a leader', { coordination: 'leader' }],
  ['a global order', { coordination: 'buckets', ordering: 'global' }],
  ['row locks', { coordination: 'rowLock', ordering: 'none' }],
];

describe.each(DATABASES)('a transport that is paused, on %s', (kind) => {
  describeWith(kind, kind, () => {
    describe.each(MODES)('with %s', (_, options) => {
      let harness: Harness;
      let transport: ScriptedTransport;
      let relays: OutboxDispatcher[] = [];
      beforeEach(async () => {
        const patient = { lease: '30m', publishTimeout: '10m' } as const; // some publishes are held back
        harness = await createHarness(kind, { ...patient, buckets: 4, pollInterval: 50, ...options });
        transport = new ScriptedTransport();
        relays = [];
      });
      afterEach(() => harness?.close());

      const isOrdered = options.ordering !== 'none';
      const bucket = options.ordering === 'global' ? { bucket: 0 } : {};
      // Row locks have few heartbeats: there a notification, or the bound, is what one waits for.
      const heard = (): void => relays.forEach((dispatcher) => dispatcher.lookAtLeases());
      const pause = async (part: object = {}) => (
        await pausesOf(harness.store).pause({ ...ACTION, scope: { ...ALL, ...part }, reason: 'audit' }),
        heard()
      );
      const resume = async (part: object = {}) => (
        await pausesOf(harness.store).resume({ ...ACTION, scope: { ...ALL, ...part } }),
        heard()
      );
      const relay = (overrides: object = {}) => {
        const made = harness.relay({ default: transport }, overrides);
        relays.push(made.dispatcher);
        return made;
      };
      const enqueue = (from: number, count: number, fields: object = {}) =>
        harness.enqueue(
          Array.from({ length: count }, (_n, n) => ({
            key: `k${(from + n) % 3}`,
            payload: bytes(from + n),
            ...bucket,
            ...fields,
          })),
        );
      /** Everything has had its turn, and again. */
      const passes = async (dispatcher: OutboxDispatcher): Promise<void> => {
        for (let pass = 0; pass < 3; pass += 1) await dispatcher.runOnce();
      };
      const published = (): number[] => transport.published.map(({ payload }) => Number(payload?.toString()));

      it('publishes nothing while the pause lasts, and all of it afterwards, each key in its order', async () => {
        const { dispatcher, hooks } = relay();
        await dispatcher.start();
        await enqueue(0, 6);
        await transport.until(() => transport.published.length === 6);
        await pause();
        await until(() => hooks.of('paused').length === 1);
        await enqueue(6, 6);
        const deliverAt = new Date(Date.now() + 10);
        await enqueue(12, 3, { deliverAt });
        await until(() => Date.now() > deliverAt.getTime());
        await passes(dispatcher);
        expect(transport.attempted).toHaveLength(6);
        expect(await harness.count('ready')).toBe(6);
        expect(dispatcher.status().transports[0]).toMatchObject({
          paused: { actor: 'ana', reason: 'audit' },
          inFlight: 0,
        });
        await resume();
        await transport.until(() => transport.published.length === 15);
        expect(hooks.of('resumed')).toMatchObject([{ transport: 'default', by: 'ana', reason: 'audit' }]);
        expect([...published()].sort((a, b) => a - b)).toEqual(Array.from({ length: 15 }, (_n, n) => n));
        if (isOrdered)
          for (const key of [0, 1, 2]) expect(ready(published(), key)).toEqual(sorted(ready(published(), key)));
        expect(hooks.of('paused')).toHaveLength(1);
      });

      it('settles what is in flight, and gives back what waits behind it', async () => {
        const held: ((result: PublishResult) => void)[] = [];
        transport.behave = () => new Promise((resolve) => held.push(resolve));
        const { dispatcher, hooks } = relay({ batchSize: 2, batchesInFlight: 1 });
        await enqueue(0, 9);
        await dispatcher.start();
        await until(() => held.length === (options.ordering === 'global' ? 1 : 2));
        const out = held.length;
        await pause();
        await until(() => hooks.of('paused').length === 1);
        transport.behave = () => PUBLISHED;
        for (const resolve of held) resolve(PUBLISHED);
        await until(async () => (await harness.count('ready')) === 9 - out);
        await passes(dispatcher);
        expect(transport.attempted).toHaveLength(out);
        expect(dispatcher.status().transports[0]).toMatchObject({ inFlight: 0, buffered: 0 });
        await resume();
        await transport.until(() => transport.published.length === 9);
        if (isOrdered)
          for (const key of [0, 1, 2]) expect(ready(published(), key)).toEqual(sorted(ready(published(), key)));
      });

      it('of a topic or a key that is paused nothing goes, nor what comes behind it, and all in order afterwards', async () => {
        const { dispatcher, hooks } = relay();
        await dispatcher.start();
        await pause({ topic: 'prices' });
        await pause({ key: 'k2' });
        await until(() => hooks.of('paused').length === 2);
        const every = Array.from({ length: 12 }, (_n, n) => n);
        for (const n of every) await enqueue(n, 1, { topic: n % 3 === 1 && n > 3 ? 'prices' : 'orders' });
        // Of key 1 the first one goes, then one of the paused topic stands before the others; of key 2 none goes.
        const free = options.ordering === 'global' ? [0, 1] : [0, 1, 3, 6, 9];
        await transport.until(() => transport.published.length === free.length);
        await until(async () => (await harness.count('ready')) === 0 || options.ordering === 'global');
        await passes(dispatcher);
        expect([...published()].sort((x, y) => x - y)).toEqual(free);
        expect(transport.attempted).toHaveLength(free.length);
        expect(dispatcher.status().transports[0]).toMatchObject({ paused: null, circuit: 'closed', away: [] });
        await resume({ topic: 'prices' });
        if (options.ordering !== 'global') await transport.until(() => transport.published.length === free.length + 3);
        await resume({ key: 'k2' });
        await transport.until(() => transport.published.length === every.length);
        if (isOrdered)
          for (const key of [0, 1, 2]) expect(ready(published(), key)).toEqual(sorted(ready(published(), key)));
        expect([...published()].sort((x, y) => x - y)).toEqual(every);
        expect(hooks.of('failed')).toEqual([]);
      });

      it('a relay that starts meanwhile publishes nothing, and a pass neither', async () => {
        await enqueue(0, 6);
        await pause();
        const { dispatcher } = relay();
        expect(await dispatcher.runOnce()).toEqual({ published: 0, retried: 0, dead: 0 });
        await dispatcher.start();
        await passes(dispatcher);
        expect(transport.attempted).toEqual([]);
        await resume();
        await transport.until(() => transport.published.length === 6);
      });
    });

    it('what somebody has locked when a pause ends goes out once it is free', async () => {
      const harness = await createHarness(kind, { buckets: 4, pollInterval: 50 });
      try {
        const transport = new ScriptedTransport();
        const scope = { ...ALL, topic: 'prices' };
        let passes = 0; // in which the relay came past what is locked
        const { dispatcher, hooks } = harness.relay(
          { default: transport },
          {},
          {
            wrapStore: (store) => {
              const { parked } = store;
              const hasten: typeof parked.hasten = async (transportId, buckets, request) => {
                const result = await parked.hasten(transportId, buckets, request);
                if (hooks.of('resumed').length === 1 && request.topics?.includes('prices') === true) passes += 1;
                return result;
              };
              return Object.assign(store, {
                parked: Object.assign(Object.create(parked) as typeof parked, { hasten }),
              });
            },
          },
        );
        await pausesOf(harness.store).pause({ ...ACTION, scope, reason: 'audit' });
        await harness.enqueue([{ key: 'k', topic: 'prices' }]);
        await dispatcher.start();
        await until(async () => (await harness.count('parked')) === 1);
        await until(() => dispatcher.status().transports[0]?.buckets.length === 4);
        await harness.dataSource.transaction(async (manager) => {
          await manager.query('select parked_id from outbox_parked for update');
          await pausesOf(harness.store).resume({ ...ACTION, scope });
          await until(() => hooks.of('resumed').length === 1);
          await until(() => passes > 0);
          expect(transport.attempted).toEqual([]);
        });
        await transport.until(() => transport.published.length === 1);
      } finally {
        await harness.close();
      }
    });
  });
});

const bytes = (n: number): Buffer => Buffer.from(String(n));
/** Of one key, without those that were scheduled: these come when they are due. */
const ready = (numbers: readonly number[], key: number): number[] => numbers.filter((n) => n % 3 === key && n < 12);
const sorted = (numbers: readonly number[]): number[] => [...numbers].sort((a, b) => a - b);
