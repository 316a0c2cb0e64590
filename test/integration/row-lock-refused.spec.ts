import type { PublishResult } from '../../lib/publish/transport.js';
import { createHarness, ScriptedTransport, type Harness } from '../support/relay.js';
import { describeWith } from '../support/services.js';
import { until } from '../support/until.js';

const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

for (const kind of ['postgres', 'mariadb'] as const)
  describeWith(kind, `with row locks, what ${kind} does not let into the parked table`, () => {
    let harness: Harness;
    afterEach(() => harness?.close());

    async function refusing(condition: string, retry = {}) {
      const rowLock = { ordering: 'none', coordination: 'rowLock', pollInterval: 50 } as const;
      harness = await createHarness(kind, { ...rowLock, retry: { initial: 10, max: 10, ...retry } });
      await harness.dataSource.query(`alter table outbox_parked add constraint theirs check (${condition})`);
      const transport = new ScriptedTransport();
      transport.behave = ({ topic }) => (topic === 'orders' ? { ok: true } : rejected());
      return { transport, ...harness.relay({ default: transport }) };
    }
    const attempts = (transport: ScriptedTransport, id: string | undefined) =>
      transport.attempted.filter((message) => message.id === id).length;

    it('undoes nothing that was published with it, and is held back for longer and longer', async () => {
      const { transport, dispatcher, hooks } = await refusing(`topic <> 'refused'`);
      const ids = await harness.enqueue([{}, {}, { topic: 'refused' }, {}, {}]);
      const [refused] = ids.splice(2, 1);
      await dispatcher.start();
      await until(async () => (await harness.count('ready')) === 1);
      expect(transport.published.map(({ id }) => id).sort()).toEqual([...ids].sort());
      const again = await hooks.until('error', 3);
      expect(again).toMatchObject({ operation: 'park', retryIn: 4_000 });
      expect(hooks.of('error').map(({ retryIn }) => retryIn)).toEqual([1_000, 2_000, 4_000]);
      expect(attempts(transport, refused)).toBe(3);
      expect(transport.published).toHaveLength(4);
      expect([hooks.of('retried'), hooks.of('dead')]).toEqual([[], []]);
      expect(await harness.count('parked')).toBe(0);

      // Behind it nothing waits.
      const [next] = await harness.enqueue([{}]);
      await transport.until(() => transport.published.some(({ id }) => id === next), 3_000);
      expect(attempts(transport, refused)).toBe(3);
    });

    it('holds back none that fails beside it: those are parked, tried again and die', async () => {
      const { transport, dispatcher, hooks } = await refusing(`topic <> 'refused'`, { maxAttempts: 2 });
      const [, refused] = await harness.enqueue([{ topic: 'a' }, { topic: 'refused' }, { topic: 'b' }]);
      await dispatcher.start();
      await hooks.until('dead', 2);
      const topicsOf = (event: 'dead' | 'retried'): string[] =>
        hooks
          .of(event)
          .map(({ topic }) => topic)
          .sort();
      expect(topicsOf('dead')).toEqual(['a', 'b']);
      expect(topicsOf('retried')).toEqual(['a', 'b']);
      expect(attempts(transport, refused)).toBeLessThan(4);
      expect([await harness.count('ready'), await harness.count('parked')]).toEqual([1, 2]);
    });

    it('also when it is parked already, and must be parked again', async () => {
      const { transport, dispatcher, hooks } = await refusing(`topic <> 'refused' or attempts < 2`);
      const [refused] = await harness.enqueue([{ topic: 'refused' }]);
      await dispatcher.start();
      await hooks.until('error');
      expect(hooks.of('error')).toMatchObject([{ operation: 'park', retryIn: 1_000 }]);
      expect(hooks.of('retried')).toMatchObject([{ id: refused, attempts: 1 }]);
      const [next] = await harness.enqueue([{}]);
      await transport.until(() => transport.published.some(({ id }) => id === next), 3_000);
      expect(attempts(transport, refused)).toBe(2);
      await until(async () => (await harness.count('ready')) === 0);
      expect(await harness.count('parked')).toBe(1);
    });
  });
