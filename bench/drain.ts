import pg from 'pg';
import { machine, median, report, round, timed } from './support/measure.js';
import { startPostgres } from './support/database.js';
import { benchRelay, connect, drained, NoopTransport } from './support/relay.js';

/**
 * How fast a backlog is drained with a transport that costs nothing, against a bare keyset SELECT of the same rows.
 *   npm run bench -- drain [rows=1000000] [repeats=5]
 */
const rows = Number(process.argv[2] ?? 1_000_000);
const repeats = Number(process.argv[3] ?? 5);
const BATCH = 500;

async function fill(client: pg.Client): Promise<void> {
  await client.query('truncate outbox_ready');
  const payload = 'x'.repeat(300);
  for (let from = 0; from < rows; from += 50_000) {
    await client.query(
      `insert into outbox_ready (bucket, id, topic, key, type, payload)
       select (('x' || substr(encode(sha256(convert_to('k' || (g % 10000), 'UTF8')), 'hex'), 1, 4))::bit(16)::int % 32)::smallint,
         ('01938f00-0000-7000-8000-' || lpad(to_hex(g), 12, '0'))::uuid, 'orders', 'k' || (g % 10000), 'order.placed', $1::bytea
       from generate_series($2::int, $3::int) g`,
      [Buffer.from(payload), from + 1, Math.min(rows, from + 50_000)],
    );
  }
  await client.query('vacuum analyze outbox_ready');
}

/** The same rows by the same key, one bucket after the other, columns as the relay reads them. */
async function select(client: pg.Client): Promise<number> {
  let count = 0;
  for (let bucket = 0; bucket < 32; bucket += 1) {
    for (let after = '0'; ; ) {
      const result = await client.query({
        name: 'keyset',
        rowMode: 'array',
        types: { getTypeParser: () => (value: string) => value },
        text: `select seq, id, topic, key, type, headers, convert_from(payload, 'UTF8') from outbox_ready
               where transport = 0 and bucket = $1 and seq > $2 order by seq limit ${BATCH}`,
        values: [bucket, after],
      });
      count += result.rows.length;
      if (result.rows.length < BATCH) break;
      after = (result.rows.at(-1) as string[])[0] as string;
    }
  }
  return count;
}

async function main(): Promise<void> {
  const server = await startPostgres();
  const dataSource = await connect(server.url);
  const transport = new NoopTransport();
  const setup = await benchRelay(dataSource, { default: transport }, { batchSize: BATCH });
  await setup.close();
  const client = new pg.Client(server.url);
  await client.connect();
  const drains: number[] = [];
  const selects: number[] = [];
  const ratios: number[] = [];
  const nodeMicros: number[] = [];
  for (let round_ = 0; round_ < repeats; round_ += 1) {
    await fill(client);
    const bare = await timed(() => select(client));
    const relay = await benchRelay(dataSource, { default: transport }, { batchSize: BATCH });
    const own = await timed(async () => {
      await relay.dispatcher.start();
      await drained(dataSource, transport, rows);
    });
    await relay.close();
    selects.push((rows / bare.ms) * 1000);
    drains.push((rows / own.ms) * 1000);
    ratios.push(bare.ms / own.ms);
    nodeMicros.push(own.cpu / rows);
    console.log(`drain ${round(drains.at(-1) as number)} rows/s, select ${round(selects.at(-1) as number)} rows/s, ratio ${round(ratios.at(-1) as number, 3)}, node ${round(own.cpu / rows, 2)} µs a row`);
  }
  await client.end();
  await dataSource.destroy();
  server.stop();
  report({ bench: 'drain', rows, rowsPerSecond: round(median(drains)), selectRowsPerSecond: round(median(selects)), ratio: round(median(ratios), 3), nodeMicrosPerRow: round(median(nodeMicros), 2), machine: machine() });
}

void main();
