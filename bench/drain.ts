import type pg from 'pg';
import type { DataSource } from 'typeorm';
import type { OutboxMessage, PublishResult } from '../lib/index.js';
import { PUBLISHED } from '../lib/transports/transport.js';
import { argument, Samples, timed } from './support/measure.js';
import { adminClient, startPostgres } from './support/postgres.js';
import { benchRelay, connect, createTables, drain, NoopTransport, untilEmpty } from './support/relay.js';
import { empty, fillReady, fillScheduled, PAYLOAD_BYTES } from './support/rows.js';
import { bench } from './support/run.js';
import { cpuOfRelay, cpuOfThread } from './support/server-cpu.js';

/**
 * How fast a backlog is drained with a transport that costs nothing, against a bare keyset SELECT of the same rows; and
 * what a claim costs beside parked rows and behind a failing key, against the same drain without them.
 *   npm run bench -- drain [rows=1000000] [repeats=5] [parked=1000000] [behindFailingKey=100000]
 * 0 leaves a variant out.
 */
const rows = argument(0, 'rows', 1_000_000);
const repeats = argument(1, 'repeats', 5);
const parked = argument(2, 'parked', 1_000_000);
const behind = argument(3, 'behindFailingKey', 100_000);
const BATCH = 500;
const KEYS = 10_000;

/** What a relay needs of a row at the least, and everything that ours reads. */
const FEW_COLUMNS = `seq, id, topic, key, type, headers, convert_from(payload, 'UTF8')`;
const ALL_COLUMNS = `seq, bucket, id, topic, key, type, version, content_type, headers, options, convert_from(payload, 'UTF8'), created_at, async_commit`;

class FailingForOneKey extends NoopTransport {
  override async publish(batch: readonly OutboxMessage[]): Promise<readonly PublishResult[]> {
    return batch.map(({ key }) => (key === FAILING ? REFUSED : PUBLISHED));
  }
}
const FAILING = 'failing0';
const REFUSED: PublishResult = { ok: false, blame: 'message', error: new Error('refused') };

/** The same rows in the order of the key, one statement at a time, a batch each; its rows are looked at no further. */
async function select(client: pg.Client, columns: string): Promise<number> {
  let count = 0;
  for (let bucket = 0; bucket < 32; bucket += 1) {
    for (let after = '0'; ;) {
      const result = await client.query({
        name: `keyset ${columns.length}`,
        rowMode: 'array',
        types: { getTypeParser: () => (value: string) => value },
        text: `select ${columns} from outbox_ready where transport = 0 and bucket = $1 and seq > $2 order by seq limit ${BATCH}`,
        values: [bucket, after],
      });
      count += result.rows.length;
      if (result.rows.length < BATCH) break;
      after = (result.rows.at(-1) as string[])[0] as string;
    }
  }
  if (count !== rows) throw new Error(`The SELECT found ${count} of ${rows} rows.`);
  return count;
}

async function measureSelect(client: pg.Client, columns: string): Promise<{ ms: number; cpu: number; server: number }> {
  const pid = Number((await client.query('select pg_backend_pid() as pid')).rows[0].pid);
  const before = cpuOfThread(pid);
  const { ms, cpu } = await timed(() => select(client, columns));
  return { ms, cpu, server: cpuOfThread(pid) - before };
}

interface DrainCost {
  /** Microseconds a row: on the wall, of this process, of the relay's backends that claim and that settle. */
  readonly wall: number;
  readonly node: number;
  readonly claim: number;
  readonly settle: number;
}

async function measureDrain(dataSource: DataSource, admin: pg.Client, transport: NoopTransport): Promise<DrainCost> {
  const relay = await benchRelay(dataSource, { default: transport }, { batchSize: BATCH });
  try {
    const drained = await drain(dataSource, relay, rows);
    const { claim, settle } = await cpuOfRelay(admin);
    const per = drained.rows;
    return { wall: (drained.ms * 1_000) / per, node: drained.cpu / per, claim: claim / rows, settle: settle / rows };
  } finally {
    await relay.close();
  }
}

/** Lets a relay run into the failing key, until everything behind it is parked; returns microseconds a row. */
async function parkBehindFailingKey(dataSource: DataSource, admin: pg.Client): Promise<number> {
  await fillReady(admin, { rows: behind, keys: 1, prefix: FAILING.slice(0, -1) });
  const relay = await benchRelay(dataSource, { default: new FailingForOneKey() }, { batchSize: BATCH });
  const { ms } = await timed(async () => {
    await relay.dispatcher.start();
    await untilEmpty(dataSource);
  });
  await relay.close();
  // A retry in the middle of the measurement would be one row; but which one, chance would decide.
  await admin.query(`update outbox_parked set due_at = now() + interval '1 day' where due_at is not null`);
  await admin.query('vacuum analyze outbox_parked');
  return (ms * 1_000) / behind;
}

bench('drain', async (closing) => {
  const server = await startPostgres(closing);
  const dataSource = await connect(closing, server.url);
  await createTables(dataSource);
  const admin = await adminClient(closing, server.url);
  const reader = await adminClient(closing, server.url);
  const samples = new Samples();
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    await empty(admin);
    await fillReady(admin, { rows, keys: KEYS });
    const few = await measureSelect(reader, FEW_COLUMNS);
    const bare = await measureSelect(reader, ALL_COLUMNS);
    const plain = await measureDrain(dataSource, admin, new NoopTransport());
    const wall = (few.ms * 1_000) / rows;
    samples.add({
      rowsPerSecond: 1e6 / plain.wall,
      selectRowsPerSecond: 1e6 / wall,
      ratio: wall / plain.wall,
      ratioToAllColumns: (bare.ms * 1_000) / rows / plain.wall,
      nodeMicros: plain.node,
      claimMicros: plain.claim,
      settleMicros: plain.settle,
      selectNodeMicros: few.cpu / rows,
      selectServerMicros: few.server / rows,
    });
    const beside = async (name: string): Promise<void> => {
      await fillReady(admin, { rows, keys: KEYS });
      const cost = await measureDrain(dataSource, admin, new FailingForOneKey());
      samples.add({
        [`${name}ClaimCostRatio`]: cost.claim / plain.claim,
        [`${name}TimeRatio`]: cost.wall / plain.wall,
        [`${name}ClaimMicros`]: cost.claim,
      });
    };
    if (parked > 0) {
      await empty(admin);
      await fillScheduled(admin, { rows: parked, keys: KEYS });
      await beside('parked');
    }
    if (behind > 0) {
      await empty(admin);
      samples.add({ parkMicros: await parkBehindFailingKey(dataSource, admin) });
      await beside('failingKey');
    }
  }
  return {
    rows,
    payloadBytes: PAYLOAD_BYTES,
    batch: BATCH,
    repeats,
    parked,
    behind,
    ...samples.medians(),
    ratioRange: samples.range('ratio'),
  };
});
