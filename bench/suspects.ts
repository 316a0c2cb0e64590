import { DataSource } from 'typeorm';
import { transactionExecutor } from '../lib/data-layers/typeorm/transaction.js';
import { createTestDatabase } from '../test/support/databases.js';
import { newMessage } from '../test/support/relay.js';
import type { DatabaseKind } from '../test/support/services.js';
import { argument, Samples } from './support/measure.js';
import { benchRelay, drain, NoopTransport, untilEmpty, type BenchRelay } from './support/relay.js';
import { PAYLOAD } from './support/rows.js';
import { bench, type Closing } from './support/run.js';

/**
 * What three unclean ends cost: a backlog is drained after a clean stop, and after the leases of its buckets ran out three times
 * in a row. The process ends are written into the lease rows, as they leave them.
 *   npm run bench -- suspects [postgres|mariadb|mysql] [rows=20000] [repeats=5]      needs the server's OUTBOX_TEST_…_URL
 */
const kind = (process.argv[2] ?? 'postgres') as DatabaseKind;
const rows = argument(1, 'rows', 20_000);
const repeats = argument(2, 'repeats', 5);
const KEYS = 10_000;
const CHUNK = 1_000;
/** With the one that is added when the lease is taken. */
const ENDS = 2;

/** Keys in turn: a backlog as an outage of the broker leaves it. */
async function fill(dataSource: DataSource, { store }: BenchRelay): Promise<void> {
  for (let from = 0; from < rows; from += CHUNK) {
    const messages = Array.from({ length: Math.min(CHUNK, rows - from) }, (_, i) =>
      newMessage({ key: `k${(from + i) % KEYS}`, payload: Buffer.from(PAYLOAD) }),
    );
    await dataSource.transaction((manager) =>
      store.writer.insert(transactionExecutor(manager.queryRunner as never), messages),
    );
  }
}

async function measure(dataSource: DataSource, owner: string | null): Promise<number> {
  const relay = await benchRelay(dataSource, { default: new NoopTransport() });
  try {
    await fill(dataSource, relay);
    await dataSource.query(
      `update outbox_leases set owner = ${owner ?? 'null'}, crashes = ${owner === null ? 0 : ENDS}, expires_at = '2000-01-01 00:00:00'`,
    );
    const { ms, rows: drained } = await drain(dataSource, relay, rows);
    await untilEmpty(dataSource);
    return (drained * 1_000) / ms;
  } finally {
    await relay.close();
  }
}

bench('suspects', async (closing: Closing) => {
  const database = await createTestDatabase(kind);
  closing.add(() => database.drop());
  const dataSource = await new DataSource(database.options).initialize();
  closing.add(() => dataSource.destroy());
  const samples = new Samples();
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    const clean = await measure(dataSource, null);
    const unclean = await measure(dataSource, `'gone'`);
    samples.add({ clean, unclean, ratio: unclean / clean });
  }
  return {
    kind,
    rows,
    repeats,
    unit: 'messages/s',
    ...samples.medians(),
    cleanRange: samples.range('clean'),
    uncleanRange: samples.range('unclean'),
  };
});
