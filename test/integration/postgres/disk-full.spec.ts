import { inspect } from 'node:util';
import { DataSource } from 'typeorm';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { canariesIn, CANARY } from '../../security/canaries.js';
import { canStart, startOwnPostgres, type OwnDatabase } from '../../support/own-database.js';
import { createHarness, newMessage, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeUnlessMissing } from '../../support/services.js';
import { mountSmallDisk } from '../../support/small-disk.js';
import { until } from '../../support/until.js';

const disk = canStart.postgres ? mountSmallDisk(8) : undefined; // for the tables of the outbox
describeUnlessMissing(disk === undefined ? ['postgres'] : [], 'a disk without room', () => {
  let server: OwnDatabase;
  let harness: Harness;
  const before = process.env['OUTBOX_TEST_POSTGRES_URL'];
  beforeAll(async () => {
    if (disk === undefined) throw new Error('This machine starts no PostgreSQL, or mounts nothing.');
    server = await startOwnPostgres({ log_parameter_max_length_on_error: '-1' }); // it quotes what it was given
    process.env['OUTBOX_TEST_POSTGRES_URL'] = server.url;
    harness = await createHarness('postgres', { buckets: 2, pollInterval: 50 });
    const { dataSource } = harness;
    await dataSource.query(`create tablespace small location '${disk.folder}'`);
    await dataSource.query('create table ballast (filling bytea) tablespace small');
    for (const table of ['ready', 'parked']) await dataSource.query(`alter table outbox_${table} set tablespace small`);
    await dataSource.query('alter table ballast alter column filling set storage external');
    await dataSource.query('alter table outbox_ready alter column payload set storage external');
  });
  afterAll(async () => {
    await harness?.close().catch(() => undefined); // its database has tables on the disk that goes
    process.env['OUTBOX_TEST_POSTGRES_URL'] = before;
    server?.stop();
    disk?.remove();
  });

  it('E9: the business transaction hears of it; the relay waits for room, publishes what was committed, and nobody pays', async () => {
    const { dataSource, store } = harness;
    await dataSource.query('insert into ballast select $1::bytea', [Buffer.alloc(3_000_000)]);
    const source = await new DataSource(harness.database.options).initialize();
    const committed: string[] = [];
    let refused: unknown;
    for (let n = 0; refused === undefined && n < 1_000; n += 1) {
      const headers = JSON.stringify({ n: String(n), h: CANARY.header });
      const message = newMessage({ key: 'k', payload: Buffer.alloc(20_000, CANARY.bytes), headers }, 2);
      await source
        .transaction((manager) => store.writer.insert(transactionExecutor(manager.queryRunner as never), [message]))
        .then(
          () => committed.push(String(n)),
          (error: unknown) => (refused = error),
        );
    }
    expect(refused).toMatchObject({ code: '53100' }); // disk_full, as the server says it
    expect(canariesIn(inspect(refused, { showHidden: true }))).toEqual([]);
    expect(committed.length).toBeGreaterThan(50);
    await source.destroy();

    const transport = new ScriptedTransport();
    let refuse = true;
    transport.behave = ({ headers }) =>
      refuse && headers['n'] === '0'
        ? { ok: false, blame: 'message', error: new Error(`not yet: ${headers['h']}`) }
        : { ok: true };
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    const waits = await hooks.until('error'); // no room to park the message that failed, and those behind it
    expect(waits).toMatchObject({ operation: 'park' });
    expect(await harness.secretsTold()).toEqual([]);
    refuse = false;
    await dataSource.query('drop table ballast');
    await transport.until(() => transport.published.length >= committed.length, 60_000);
    await until(async () => (await harness.count('ready')) + (await harness.count('parked')) === 0);
    expect(transport.published.map(({ headers }) => headers['n'])).toEqual(committed);
    expect(hooks.of('dead')).toEqual([]);
    expect(hooks.of('retried')).toHaveLength(1); // the failure that was the message's own
  });
});
