import { DataSource } from 'typeorm';
import { describeOnOwnMysqlFamily } from '../../support/own-database.js';
import { Ledger, Writers, CALM } from '../../support/ledger.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

describe('what the application does beside the relay', () => {
  let harness: Harness;
  const closing: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
  });

  describeOnOwnMysqlFamily([], 'a server of its own', (kind, startServer) => {
    it('E3: 64 writers and eight relays: no statement of a writer fails for a lock, each message goes out once', async () => {
      const server = await startServer(['--max-connections=300']);
      closing.push(() => server.stop());
      harness = await createHarness(kind, { pollInterval: 50, lease: '10m' }, server.url);
      closing.push(() => harness.close());
      const ledger = new Ledger();
      const writers = await Writers.open(harness, ledger, 64);
      closing.push(() => writers.close());
      const relays = Array.from({ length: 8 }, () => harness.relay({ default: ledger.transport() }));
      await Promise.all(relays.map(({ dispatcher }) => dispatcher.start()));
      for (let w = 0; w < 64; w += 1) writers.start(`w${w}`, { hold: 0.1, rollback: 0.05, pauseMs: 20 });
      await until(() => ledger.committed.size > 2_000, 120_000);
      await writers.end(); // rejects with the first error of a writer
      await until(() => ledger.complete, 120_000);
      expect(ledger.verdict()).toEqual(CALM);
    });
  });

  describeWith('postgres', 'on PostgreSQL', () => {
    it('E4: an old snapshot keeps dead rows: what the relay reads at its heads costs the same', async () => {
      harness = await createHarness('postgres', { pollInterval: 50 });
      closing.push(() => harness.close());
      const old = await new DataSource(harness.database.options).initialize();
      closing.push(() => old.destroy());
      const runner = old.createQueryRunner();
      await runner.startTransaction('REPEATABLE READ');
      await runner.query('select count(*) from outbox_ready');
      closing.push(() => runner.release().catch(() => undefined));
      const ledger = new Ledger();
      await harness.relay({ default: ledger.transport() }).dispatcher.start();
      const blocks = async (after: string): Promise<number> => {
        const [row] = (await harness.dataSource.query(`explain (analyze, buffers, format json)
          select seq from outbox_ready where transport = 0 and bucket = 3 and seq > ${after} order by seq limit 100`)) as {
          'QUERY PLAN': { Plan: Record<string, number> }[];
        }[];
        const plan = row?.['QUERY PLAN'][0]?.Plan ?? {};
        return Number(plan['Shared Hit Blocks']) + Number(plan['Shared Read Blocks']);
      };
      const costs: { head: number; start: number }[] = [];
      for (let round = 1; round <= 3; round += 1) {
        await harness.dataSource.query(`insert into outbox_ready (transport, bucket, key, id, topic, type, payload)
          select 0, g % 32, 'k' || g % 500, gen_random_uuid(), 't', 't', convert_to('${round}:' || g, 'UTF8')
          from generate_series(1, 10000) g`);
        await until(async () => (await harness.count('ready')) === 0, 60_000);
        const [last] = (await harness.dataSource.query(
          `select pg_sequence_last_value(pg_get_serial_sequence('outbox_ready', 'seq')) as seq`,
        )) as { seq: string }[];
        costs.push({ head: await blocks(last?.seq ?? '0'), start: await blocks('0') });
      }
      // Only a look from the start, at a takeover and every 45 s, passes what is dead: 0.5 blocks for each dead row of the bucket.
      expect(costs.map(({ head }) => head <= 12)).toEqual([true, true, true]);
      expect(costs.at(-1)?.start).toBeLessThan(1_500);
    });
  });
});
