import type { OutboxStore } from '../../../lib/index.js';
import { DataSource } from 'typeorm';
import { createHarness, ScriptedTransport, wrapped, type Harness } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';

/** Of two buckets. A look at all of them takes some 30 ms. */
const DEAD = 160_000;
const DIGIT =
  '(select 0 n union all select 1 union all select 2 union all select 3 union all select 4 union all select 5 union all select 6 union all select 7 union all select 8 union all select 9)';

describe.each(['mariadb', 'mysql'] as const)('%s', (kind) => {
  describeWith(kind, 'a take-over while a snapshot is held that keeps rows that are gone', () => {
    let harness: Harness;
    const closing: (() => unknown)[] = [];
    beforeEach(async () => {
      harness = await createHarness(kind, { pollInterval: 50 });
      closing.push(() => harness.close());
      const holder = await new DataSource(harness.database.options).initialize();
      closing.push(() => holder.destroy());
      const runner = holder.createQueryRunner();
      await runner.startTransaction('REPEATABLE READ');
      await runner.query('select count(*) from outbox_ready');
      closing.push(() => runner.rollbackTransaction().then(() => runner.release()));
      for (let rows = 0; rows < DEAD; rows += 10_000)
        await harness.dataSource.query(`insert into outbox_ready (transport, bucket, id, topic, type, payload)
          select 0, a.n % 2, uuid(), 't', 't', '' from ${DIGIT} a, ${DIGIT} b, ${DIGIT} c, ${DIGIT} d`);
      await harness.dataSource.query('delete from outbox_ready');
    });
    afterEach(async () => {
      for (const close of closing.splice(0).reverse()) await close();
    });

    it('Q6: no bucket is fetched from its beginning again, and what is behind the dead rows is published, in order', async () => {
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
      await transport.until(() => transport.published.length >= texts.length, 120_000);
      expect(transport.texts).toEqual(texts);
      // All but the first one begin behind them.
      expect(from.filter((after) => after < DEAD).length).toBeLessThanOrEqual(2 * harness.options.buckets);
    });
  });
});
