import type { OutboxStore } from '../../../lib/index.js';
import { ScriptedTransport, wrapped } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';
import { withDeadRows } from './dead-rows.js';

/** Of two buckets. A look at all of them takes some 30 ms. */
const DEAD = 160_000;
const DIGIT =
  '(select 0 n union all select 1 union all select 2 union all select 3 union all select 4 union all select 5 union all select 6 union all select 7 union all select 8 union all select 9)';

describe.each(['mariadb', 'mysql'] as const)('%s', (kind) => {
  describeWith(kind, 'a take-over while a snapshot is held that keeps rows that are gone', () => {
    const dead = withDeadRows(kind, async (dataSource) => {
      for (let rows = 0; rows < DEAD; rows += 10_000)
        await dataSource.query(`insert into outbox_ready (transport, bucket, id, topic, type, payload)
          select 0, a.n % 2, uuid(), 't', 't', '' from ${DIGIT} a, ${DIGIT} b, ${DIGIT} c, ${DIGIT} d`);
    });

    it('Q6: no bucket is fetched from its beginning again, and what is behind the dead rows is published, in order', async () => {
      const texts = Array.from({ length: 20 }, (_, n) => String(n));
      for (const text of texts) await dead.harness.enqueue([{ bucket: 1, key: 'k', payload: Buffer.from(text) }]);
      const transport = new ScriptedTransport();
      const from: number[] = [];
      const wrapStore = (store: OutboxStore): OutboxStore =>
        wrapped(store, {
          fetch(request) {
            from.push(...request.positions.map(({ after }) => Number(after)));
            return store.ready.fetch(request);
          },
        });
      await dead.harness.relay({ default: transport }, {}, { wrapStore }).dispatcher.start();
      await transport.until(() => transport.published.length >= texts.length, 120_000);
      expect(transport.texts).toEqual(texts);
      // All but the first one begin behind them.
      expect(from.filter((after) => after < DEAD).length).toBeLessThanOrEqual(2 * dead.harness.options.buckets);
    });
  });
});
