import { setTimeout as delay } from 'node:timers/promises';
import type { Connection, RowDataPacket } from 'mysql2/promise';
import { argument, Samples, timed } from './support/measure.js';
import { openSession, startMariadb } from './support/mariadb.js';
import { benchRelay, connect, createTables, drain, NoopTransport } from './support/relay.js';
import { PAYLOAD, PAYLOAD_BYTES } from './support/rows.js';
import { bench } from './support/run.js';
import { cpuOfProcess } from './support/server-cpu.js';

/**
 * On MariaDB: a drain with a transport that costs nothing, against the usual `SELECT … FOR UPDATE SKIP LOCKED`, DELETE,
 * COMMIT over the same messages.
 *   npm run bench -- mariadb [rows=200000] [repeats=5]
 */
const rows = argument(0, 'rows', 200_000);
const repeats = argument(1, 'repeats', 5);
const BATCH = 500;

async function fill(admin: Connection): Promise<void> {
  await admin.query('truncate outbox_ready');
  for (let from = 1; from <= rows; from += 50_000) {
    await admin.query(
      `insert into outbox_ready (id, topic, \`key\`, type, payload)
       select concat('01938f00-0000-7000-8000-', lpad(lower(hex(seq)), 12, '0')), 'orders', concat('k', seq % 10000), 'order.placed', ?
       from seq_1_to_${rows} where seq between ? and ?`,
      [PAYLOAD, from, from + 49_999],
    );
  }
}

/** The other design's own table: one key, in the order in which it is read, and no bucket. */
async function fillSkipLocked(admin: Connection): Promise<void> {
  await admin.query(`drop table if exists skip_locked;
    create table skip_locked (seq bigint unsigned not null auto_increment primary key, id char(36) character set ascii not null,
      topic varchar(255) not null, \`key\` varbinary(255), type varchar(255) not null, version smallint not null, content_type varchar(255) not null,
      headers mediumtext, options text, payload longblob, created_at datetime(6) not null) engine = innodb;
    insert into skip_locked select ${COLUMNS} from outbox_ready order by outbox_ready.seq`);
}
const COLUMNS = 'seq, id, topic, `key`, type, version, content_type, headers, options, payload, created_at';

interface OtherDesign {
  readonly from: string;
  readonly order: string;
  /** Both first of the columns: bucket and number. */
  readonly places: (batch: readonly (readonly string[])[]) => string;
}
/** By the key of our table, which leads bucket by bucket: a batch spans one or two of them. */
const ON_OUR_TABLE: OtherDesign = {
  from: 'outbox_ready where transport = 0',
  order: 'transport, bucket, seq',
  places: (batch) =>
    `bucket in (${[...new Set(batch.map(([, bucket]) => bucket))].join()}) and transport = 0 and seq in (${batch.map(([seq]) => seq).join()})`,
};
const ON_ITS_OWN: OtherDesign = {
  from: 'skip_locked',
  order: 'seq',
  places: (batch) => `seq in (${batch.map(([seq]) => seq).join()})`,
};

/** READ COMMITTED: with InnoDB's default, gap locks would make it slower still. */
async function skipLocked(session: Connection, { from, order, places }: OtherDesign): Promise<void> {
  const table = from.split(' ')[0] as string;
  const columns = table === 'skip_locked' ? COLUMNS : COLUMNS.replace('seq,', 'seq, bucket,');
  await session.query('set session transaction isolation level read committed');
  for (let count = 0; ;) {
    await session.query('begin');
    const [batch] = await session.query<RowDataPacket[]>(
      `select ${columns} from ${from} order by ${order} limit ${BATCH} for update skip locked`,
    );
    const taken = batch as unknown as readonly (readonly string[])[];
    if (taken.length > 0) await session.query(`delete from ${table} where ${places(taken)}`);
    await session.query('commit');
    count += taken.length;
    if (taken.length > 0) continue;
    if (count !== rows) throw new Error(`SKIP LOCKED took ${count} of ${rows} rows.`);
    return;
  }
}

bench('mariadb', async (closing) => {
  const server = await startMariadb(closing);
  const dataSource = await connect(closing, server.url);
  await createTables(dataSource);
  const admin = await openSession(closing, server.url);
  const session = await openSession(closing, server.url);
  const samples = new Samples();
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    await fill(admin);
    await fillSkipLocked(admin);
    const cpuSince = (before: number): number => (cpuOfProcess(server.pid) - before) / rows;
    let before = cpuOfProcess(server.pid);
    const itsOwn = await timed(() => skipLocked(session, ON_ITS_OWN));
    const itsOwnServer = cpuSince(before);
    before = cpuOfProcess(server.pid);
    const other = await timed(() => skipLocked(session, ON_OUR_TABLE));
    const otherServer = cpuSince(before);
    await fill(admin);
    await delay(2_500); // a backlog is older than the moment for which a floor waits
    before = cpuOfProcess(server.pid);
    const relay = await benchRelay(dataSource, { default: new NoopTransport() }, { batchSize: BATCH });
    const own = await drain(dataSource, relay, rows).finally(() => relay.close());
    const perSecond = (own.rows / own.ms) * 1_000;
    samples.add({
      rowsPerSecond: perSecond,
      skipLockedRowsPerSecond: (rows / other.ms) * 1_000,
      ratio: perSecond / ((rows / other.ms) * 1_000),
      ratioToItsOwnTable: perSecond / ((rows / itsOwn.ms) * 1_000),
      nodeMicros: own.cpu / own.rows,
      serverMicros: cpuSince(before),
      skipLockedNodeMicros: other.cpu / rows,
      skipLockedServerMicros: otherServer,
      itsOwnTableServerMicros: itsOwnServer,
    });
  }
  const [[[version]]] = (await admin.query('select version()')) as unknown as [[[string]]];
  return {
    rows,
    payloadBytes: PAYLOAD_BYTES,
    batch: BATCH,
    repeats,
    server: version,
    ...samples.medians(),
    ratioRange: samples.range('ratio'),
  };
});
