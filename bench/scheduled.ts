import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { OutboxDispatcher, OutboxService, PUBLISHED, type OutboxMessage } from '../lib/index.js';
import { OrderPlaced, startApplication } from './support/app.js';
import { startMariadb } from './support/mariadb.js';
import { argument, percentile, round, smoke, Samples } from './support/measure.js';
import { startPostgres } from './support/postgres.js';
import { NoopTransport } from './support/relay.js';
import { bench, Closing } from './support/run.js';
import { cpuOfProcess, cpuOfThread } from './support/server-cpu.js';

/**
 * What a start costs where many messages are scheduled within the hour, against a start where none is: statements, rows read and
 * CPU of the server in the first seconds, and the latency of messages that are committed meanwhile.
 *   npm run bench -- scheduled [postgres|mariadb] [rows=1000000] [repeats=3]
 */
const kind = process.argv[2] ?? 'postgres';
const [rows, repeats] = [argument(1, 'rows', 1_000_000), argument(2, 'repeats', 3)];
const MESSAGES = smoke(250, 20);
const isPostgres = kind === 'postgres';

class Timing extends NoopTransport {
  readonly at = new Map<string, number>();
  override async publish(batch: readonly OutboxMessage[]) {
    for (const { id } of batch) this.at.set(id, performance.now());
    return batch.map(() => PUBLISHED);
  }
}

/** What the server counts. */
interface Counts {
  readonly statements: number;
  readonly rowsRead: number;
  readonly cpu: number;
}

async function open(closing: Closing) {
  const server = isPostgres
    ? await startPostgres(closing, { log_statement: 'all', log_line_prefix: '%a\\|', jit: 'off' })
    : await startMariadb(closing);
  const counts = async (db: DataSource): Promise<Counts> => {
    const number = async (sql: string): Promise<number> => Number((await db.query(sql))[0].n);
    if (!isPostgres) {
      const status = `select sum(variable_value) n from information_schema.global_status where variable_name`;
      const statements = await number(`${status} = 'Questions'`);
      const rowsRead = await number(`${status} like 'Handler\\_read\\_%'`);
      return { statements, rowsRead, cpu: cpuOfProcess(server.pid) };
    }
    const backends: { pid: number }[] = await db.query(
      `select pid from pg_stat_activity where application_name = 'nestjs-outbox'`,
    );
    const log = readFileSync(join(server.folder, 'log'), 'utf8');
    return {
      statements: log.match(/^nestjs-outbox\|LOG: {2}(statement|execute)/gm)?.length ?? 0,
      rowsRead: await number(`select sum(idx_tup_read) n from pg_stat_user_indexes where relname = 'outbox_parked'`),
      cpu: backends.reduce((sum, { pid }) => sum + cpuOfThread(pid), 0),
    };
  };
  return { url: server.url, counts };
}

/** Due in half an hour and later. */
async function fill(db: DataSource): Promise<void> {
  const [key, id, due, series] = isPostgres
    ? ['key', 'gen_random_uuid()', `now() + interval '30 min' + n * interval '1 ms'`, `generate_series(1, ${rows}) n`]
    : [
        '`key`',
        'uuid()',
        'utc_timestamp(6) + interval 30 minute + interval n * 1000 microsecond',
        `(select seq n from seq_1_to_${rows}) s`,
      ];
  await db.query(`insert into outbox_parked (bucket, id, topic, ${key}, type, payload, state, due_at)
    select n % 32, ${id}, 'orders', concat('s', n % 10000), 'order.placed', '{}', 1, ${due} from ${series}`);
  await db.query(isPostgres ? 'vacuum analyze outbox_parked' : 'analyze table outbox_parked');
}

async function start(closing: Closing, { url, counts }: Awaited<ReturnType<typeof open>>) {
  const transport = new Timing();
  const app = await startApplication(closing, url, { transports: { default: transport }, relay: 'manual' });
  const [db, outbox, dispatcher] = [app.get(DataSource), app.get(OutboxService), app.get(OutboxDispatcher)];
  const before = await counts(db);
  const from = performance.now();
  await dispatcher.start();
  const startMs = performance.now() - from;
  const committed = new Map<string, number>();
  for (let n = 0; n < MESSAGES; n += 1) {
    const id = await db.transaction((manager) => outbox.enqueue(new OrderPlaced(`o${n}`), { manager }));
    committed.set(id, performance.now());
    await delay(20);
  }
  while (transport.at.size < MESSAGES) await delay(5);
  await delay(1_500); // the server's counts are told once a second
  const after = await counts(db);
  const latencies = [...committed].map(([id, at]) => (transport.at.get(id) as number) - at);
  await app.close();
  return {
    startMs,
    statements: after.statements - before.statements,
    rowsRead: after.rowsRead - before.rowsRead,
    serverCpuMs: (after.cpu - before.cpu) / 1_000,
    p50: percentile(latencies, 50),
    p99: percentile(latencies, 99),
  };
}

bench('scheduled', async (closing) => {
  const result: Record<string, unknown> = { kind, rows, repeats };
  const server = await open(closing);
  for (const [name, prepare] of [
    ['none', undefined],
    ['scheduled', fill],
  ] as const) {
    const warm = await startApplication(closing, server.url, {
      transports: { default: new NoopTransport() },
      relay: 'manual',
    });
    await prepare?.(warm.get(DataSource));
    await warm.close();
    await start(closing, server); // everything is compiled and warm
    const samples = new Samples();
    for (let repeat = 0; repeat < repeats; repeat += 1) samples.add(await start(closing, server));
    result[name] = { ...samples.medians(), worstP99: round(samples.range('p99')[1], 2) };
  }
  return result;
});
