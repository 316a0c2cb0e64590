import type { PublishResult, OutboxStore } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { series } from '../../support/databases.js';
import { createHarness, ScriptedTransport, wrapped, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';

const BACKLOG = 50_000;

describe.each(DATABASES)('what stands in front on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    afterEach(() => harness?.close());
    const sql = (postgres: string, mariadb: string): string => (kind === 'postgres' ? postgres : mariadb);

    it('fills no batch, however many rows of one key or of none fail again and again', async () => {
      const retry = { initial: 1, max: 1, maxAttempts: null };
      harness = await createHarness(kind, { batchSize: 30, batchesInFlight: 1, pollInterval: 50, retry });
      const transport = new ScriptedTransport();
      transport.behave = ({ topic }) =>
        topic === 'bad' ? { ok: false, blame: 'message', error: new Error('no') } : PUBLISHED;
      const bad = Array.from({ length: 800 }, (_, i) => ({ topic: 'bad', key: i % 2 ? 'entity' : null }));
      const good = Array.from({ length: 100 }, (_, i) => ({ key: i % 2 ? `k${i}` : null }));
      await harness.enqueue([...bad, ...good]);
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await dispatcher.start();
      await transport.until(() => transport.published.length === 100);
      await hooks.until('retried', 1_000); // what failed is still tried: it is behind nothing for ever either
      await harness.enqueue([{ key: 'new' }]);
      await transport.until(() => transport.published.length === 101);
      expect(hooks.of('dead')).toEqual([]);
    });

    it('is never in memory as a whole: no more than two batches beyond those that are out', async () => {
      harness = await createHarness(kind, { batchSize: 100, batchesInFlight: 2 });
      await harness.dataSource.query(
        sql(
          `insert into outbox_ready (transport, bucket, key, id, topic, type, payload)
            select 0, g % 32, 'k' || g, gen_random_uuid(), 't', 't', '{}' from generate_series(1, ${BACKLOG}) g`,
          `insert into outbox_ready (transport, bucket, \`key\`, id, topic, type, payload)
            select 0, seq % 32, concat('k', seq), uuid(), 't', 't', '{}' from ${series(kind, BACKLOG)}`,
        ),
      );
      const transport = new ScriptedTransport();
      let begin: (result: PublishResult) => void = () => undefined;
      const full = new Promise<PublishResult>((resolve) => (begin = resolve)); // first it has time to read all it wants
      transport.behave = () => full;
      let read = 0;
      let most = 0;
      const { dispatcher } = harness.relay({ default: transport }, {}, { wrapStore: counting });
      function counting(store: OutboxStore): OutboxStore {
        return wrapped(store, {
          async fetch(request) {
            const found = await store.ready.fetch(request);
            read += found.messages.length;
            most = Math.max(most, read - transport.published.length);
            if (most >= 400) begin(PUBLISHED);
            return found;
          },
        });
      }
      await dispatcher.start();
      await transport.until(() => transport.published.length === BACKLOG, 170_000);
      expect(most).toBe(400);
    });

    it('is published at any age, before the relay starts and while it runs', async () => {
      harness = await createHarness(kind, { pollInterval: 50 });
      const transport = new ScriptedTransport();
      const { dispatcher } = harness.relay({ default: transport });
      const old = (): Promise<unknown> =>
        harness.dataSource.query(
          sql(
            `insert into outbox_ready (transport, bucket, key, id, topic, type, payload, created_at)
              select 0, g, 'k' || g, gen_random_uuid(), 't', 't', '{}', now() - g * interval '5 years'
              from generate_series(0, 9) g`,
            `insert into outbox_ready (transport, bucket, \`key\`, id, topic, type, payload, created_at)
              select 0, seq, concat('k', seq), uuid(), 't', 't', '{}', utc_timestamp(6) - interval 5 * seq year
              from ${series(kind, 10)}`,
          ),
        );
      await old();
      await dispatcher.start();
      await transport.until(() => transport.published.length === 10);
      await old();
      await transport.until(() => transport.published.length === 20);
    });
  });
});
