import { DataSource } from 'typeorm';
import type { PublishResult } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

const text = (value: string | number) => Buffer.from(String(value));
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

describe.each(DATABASES)('faults around the relay on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    const cleanUp: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const release of cleanUp.splice(0).reverse()) await release();
      await harness?.close();
    });

    /** A relay whose way to the database can be cut. */
    async function proxied(transport: ScriptedTransport) {
      const proxy = await TcpProxy.start(harness.database.url);
      const url = new URL(harness.database.url);
      url.host = `${proxy.host}:${proxy.port}`;
      const dataSource = await new DataSource({ ...harness.database.options, url: url.href } as never).initialize();
      const relay = harness.relay({ default: transport }, {}, { dataSource });
      cleanUp.push(
        async () => (await dataSource.destroy(), await proxy.close()),
        () => relay.dispatcher.stop(),
        async () => (await proxy.accept(), proxy.heal()),
      );
      const goAway = (): void => {
        void proxy.refuse();
        proxy.cut();
      };
      return { ...relay, goAway, comeBack: () => proxy.accept() };
    }

    const payloads = (transport: ScriptedTransport): string[] => [...transport.texts].sort();

    it('B6: publishes nothing twice when the database goes away between the confirm and the settle', async () => {
      harness = await createHarness(kind);
      const transport = new ScriptedTransport();
      const { dispatcher, hooks, goAway, comeBack } = await proxied(transport);
      let away = 0;
      transport.behave = () => {
        if (away++ === 0) goAway();
        return PUBLISHED;
      };
      await harness.enqueue(Array.from({ length: 30 }, (_, i) => ({ key: `k${i % 3}`, payload: text(i) })));
      await dispatcher.start();
      await until(() => hooks.of('error').some(({ operation }) => operation === 'settle'));
      await comeBack();
      await until(async () => (await harness.count('ready')) === 0);
      expect(payloads(transport)).toEqual(Array.from({ length: 30 }, (_, i) => String(i)).sort());
      expect(transport.attempted).toHaveLength(30);
    });

    it.each(['headers', 'options'])('finds a row whose %s nobody can read, and delivers the others', async (column) => {
      harness = await createHarness(kind, { pollInterval: 50, retry: { initial: 1, max: 5, maxAttempts: 3 } });
      const rows = Array.from({ length: 12 }, (_, i) => ({ payload: text(i) }));
      const [broken] = await harness.enqueue(rows);
      await harness.dataSource.query(`update outbox_ready set ${column} = 'canary, no JSON' where id = '${broken}'`);
      const transport = new ScriptedTransport();
      // A transport of somebody who read the contract: what cannot be encoded is the message's fault.
      transport.behave = (message) => {
        try {
          return message.headers && message.options ? PUBLISHED : rejected();
        } catch (error) {
          return { ok: false, blame: 'message', error };
        }
      };
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await dispatcher.start();
      expect(await hooks.until('dead')).toMatchObject({ id: broken, attempts: 3 });
      await until(() => transport.published.length === 11);
      await dispatcher.drain({ timeout: 60_000 });
      expect(transport.published).toHaveLength(11);
      expect(JSON.stringify(hooks.events)).not.toContain('canary');
    });
  });
});
