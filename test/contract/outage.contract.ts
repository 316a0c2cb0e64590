import type { PublishResult } from '../../lib/index.js';
import { PUBLISHED } from '../../lib/transports/transport.js';
import { createHarness, ScriptedTransport, type Harness } from '../support/relay.js';
import type { DatabaseKind } from '../support/services.js';

const leaderless = (): PublishResult => ({
  ok: false,
  blame: 'transport',
  suspect: 'destination',
  error: new Error('no leader'),
});
const refused = (): PublishResult => ({ ok: false, blame: 'transport', error: new Error('not enough replicas') });

/** A broker that takes connections and no writes, on a real database. */
export function describeOutage(kind: DatabaseKind): void {
  let harness: Harness;
  afterEach(() => harness?.close());

  it.each(['key', 'global'] as const)(
    'C16: a scheduled message that is all there is pays nothing while connections, and no writes, get through (%s)',
    async (ordering) => {
      harness = await createHarness(kind, { ordering, retry: { maxAttempts: 1 }, pollInterval: 50 });
      const transport = new ScriptedTransport();
      transport.behave = refused;
      // By the shortest delays.
      const { dispatcher, hooks } = harness.relay({ default: transport }, {}, { random: () => 0 });
      await harness.enqueue([{ key: 'k', bucket: 0, delay: 1 }]);
      await dispatcher.start();
      // Three times alone, and the fourth failure would be its own.
      await Promise.race([hooks.until('circuitOpened', 4), hooks.until('dead')]);
      transport.behave = () => PUBLISHED;
      if (hooks.of('dead').length === 0) await transport.until(() => transport.published.length === 1);
      expect(hooks.of('dead')).toEqual([]);
      expect(hooks.of('retried')).toEqual([]);
      expect(transport.attempted.map(({ attempts }) => attempts)).toEqual(transport.attempted.map(() => 0));
    },
  );

  it.each(['buckets', 'rowLock'] as const)(
    'C2: destinations that are away for long cost nothing, and what goes elsewhere gets through (%s)',
    async (coordination) => {
      const ordering = coordination === 'rowLock' ? 'none' : 'key';
      const retry = { maxAttempts: 1 };
      harness = await createHarness(kind, { coordination, ordering, retry, pollInterval: 50, batchSize: 50 });
      const transport = new ScriptedTransport();
      const isAway = ({ topic }: { topic: string }): boolean => topic === 'away';
      transport.behave = (message) => (isAway(message) ? leaderless() : PUBLISHED);
      const { dispatcher, hooks } = harness.relay({ default: transport }, {}, { random: () => 0 });
      const ofKey = (n: number): string => `k${n % 30}`;
      const messages = Array.from({ length: 300 }, (_, n) => ({
        topic: n % 3 === 0 ? 'away' : 'there',
        key: ofKey(n),
        bucket: (n % 30) % 4,
        payload: Buffer.from(`${n}`),
      }));
      await harness.enqueue(messages);
      await dispatcher.start();
      await transport.until(() => transport.published.length === 200);
      const { id } = transport.attempted.find(isAway)!;
      const attempts = (): number => transport.attempted.filter((message) => message.id === id).length;
      // More often than it would take to charge one that kills its connection.
      let others = 0;
      while (attempts() <= 5) {
        await harness.enqueue([{ topic: 'there', key: `other ${(others += 1)}`, payload: Buffer.from('-1') }]);
        await transport.until(() => transport.published.length === 200 + others);
      }
      transport.behave = () => PUBLISHED;
      await transport.until(() => transport.published.length === 300 + others, 120_000);
      expect(transport.attempted.map(({ attempts }) => attempts)).toEqual(transport.attempted.map(() => 0));
      expect(hooks.of('dead')).toEqual([]);
      if (coordination === 'rowLock') return;
      const numbers = transport.texts.map(Number);
      for (let key = 0; key < 30; key += 1) {
        const ofIt = numbers.filter((n) => n % 30 === key);
        expect(ofIt).toEqual([...ofIt].sort((a, b) => a - b));
      }
    },
  );
}
