import type pg from 'pg';
import { OutboxCleaner, OutboxService } from '../lib/index.js';
import { startApplication } from './support/app.js';
import { argument, percentile, round, Samples, smoke } from './support/measure.js';
import { writeFor } from './support/paced.js';
import { adminClient, SLOW_FLUSH, startPostgres } from './support/postgres.js';
import { NoopTransport } from './support/relay.js';
import { PAYLOAD } from './support/rows.js';
import { bench } from './support/run.js';

/**
 * What writers feel while the cleaner empties an archive, on PostgreSQL: transactions that enqueue one
 * message each, at fixed times, without a cleaner and beside one.
 *   npm run bench -- clean [archived rows=200000] [repeats=5]
 */
const archived = argument(0, 'archived rows', 200_000);
const repeats = argument(1, 'repeats', 5);
/** Transactions a second. */
const RATE = 100;
/** Without a cleaner, and beside one. */
const VARIANTS = ['none', 'cleaned'] as const;
type Variant = (typeof VARIANTS)[number];
/** Milliseconds of each measurement. */
const LONG = smoke(10_000, 500);

/** Rows that were published two days ago. */
async function fillArchive(admin: pg.Client): Promise<void> {
  await admin.query('truncate outbox_archive');
  await admin.query(
    `insert into outbox_archive (transport, bucket, seq, id, topic, key, type, payload, published_at)
     select 0, g % 32, g, gen_random_uuid(), 'orders', 'k' || g % 10000, 'order.placed', $1::bytea, now() - interval '2 days'
     from generate_series(1, $2::int) g`,
    [Buffer.from(PAYLOAD), archived],
  );
  await admin.query('checkpoint');
  await admin.query('vacuum analyze outbox_archive');
}

bench('clean', async (closing) => {
  const { url } = await startPostgres(closing, SLOW_FLUSH);
  const admin = await adminClient(closing, url);
  const samples = new Samples();
  const application = await startApplication(closing, url, {
    relay: false,
    transports: { default: new NoopTransport() },
    onPublished: 'archive',
    retention: { published: '1d' },
  });
  const [service, own] = [application.get(OutboxService), application.get(OutboxCleaner)];
  await writeFor(service, RATE, LONG); // warm
  for (let repeat = 0; repeat < repeats; repeat++) {
    const p99: Partial<Record<Variant, number>> = {};
    for (const variant of VARIANTS) {
      await fillArchive(admin);
      const abort = new AbortController();
      const from = performance.now();
      const cleaned =
        variant === 'none'
          ? Promise.resolve(undefined)
          : own.runOnce(undefined, { signal: abort.signal }).then(({ published }) => ({
              rows: published,
              ms: performance.now() - from,
            }));
      const took = await writeFor(service, RATE, LONG);
      abort.abort();
      const done = await cleaned;
      p99[variant] = percentile(took, 99);
      samples.add({
        [`${variant}P50`]: percentile(took, 50),
        [`${variant}P99`]: percentile(took, 99),
        ...(done === undefined ? {} : { [`${variant}RowsPerSecond`]: (done.rows / done.ms) * 1_000 }),
        ...(done === undefined ? {} : { [`${variant}P99Ratio`]: (p99[variant] as number) / (p99.none as number) }),
      });
      await admin.query('truncate outbox_ready');
    }
  }
  const cleanedP99RatioRange = samples.range('cleanedP99Ratio').map((value) => round(value, 2));
  return { archived, rate: RATE, ...samples.medians(), cleanedP99RatioRange };
});
