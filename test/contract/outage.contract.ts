import { PUBLISHED, type PublishResult } from '../../lib/publish/transport.js';
import { createHarness, ScriptedTransport, type Harness } from '../support/relay.js';

const refused = (): PublishResult => ({ ok: false, blame: 'transport', error: new Error('not enough replicas') });

/** A broker that takes connections and no writes, on a real database. */
export function describeOutage(kind: 'postgres' | 'mariadb'): void {
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
}
