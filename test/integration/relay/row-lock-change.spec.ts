import { openStore } from '../../support/open-store.js';
import { outboxSql } from '../../../lib/data-layers/typeorm/index.js';
import { createHarness, ScriptedTransport } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

describeWith('postgres', 'tables with an order that become tables for row locks', () => {
  it('as the hint says: what waited behind a dead message is published, too', async () => {
    const harness = await createHarness('postgres', { onDead: 'block', retry: { maxAttempts: 1 } });
    const settings = { ...harness.options, ordering: 'none', coordination: 'rowLock' } as const;
    const store = openStore(harness.dataSource, { ...settings, options: settings.database });
    try {
      const transport = new ScriptedTransport();
      transport.behave = () => ({ ok: false, blame: 'message', error: new Error('no') });
      const ids = await harness.enqueue([{ key: 'k' }, { key: 'k' }]);
      const { dispatcher } = harness.relay({ default: transport });
      await dispatcher.start();
      const parked = () => harness.dataSource.query('select id, state from outbox_parked order by seq');
      await until(async () => (await parked()).length === 2);
      expect(await parked()).toEqual([
        { id: ids[0], state: 4 },
        { id: ids[1], state: 3 },
      ]);
      await dispatcher.stop();

      const refused: unknown = await store.setup.check(settings).catch((error: unknown) => error);
      const { hint } = refused as { hint: string };
      expect(hint).toContain('run the up of outboxSql()');
      await harness.dataSource.query(outboxSql('postgres', settings).up);
      await harness.dataSource.query(hint.slice(hint.indexOf('and run: ') + 'and run: '.length, -1));
      await store.setup.check(settings);

      const seen: string[] = [];
      const request = { transport: 0, limit: 10, onPublished: 'delete' } as const;
      await store.rowLocks.withLockedRows(request, async (messages) => {
        seen.push(...messages.map(({ id }) => id));
        return { published: messages, parked: [], reparked: [] };
      });
      expect(seen).toEqual([ids[1]]);
      expect(await parked()).toEqual([{ id: ids[0], state: 4 }]);
    } finally {
      await store.close();
      await harness.close();
    }
  });
});
