import { describeDebeziumBeside } from '../../contract/debezium-beside.contract.js';
import { describeDebeziumStops } from '../../contract/debezium-stops.contract.js';
import { describeDebezium } from '../../contract/debezium.contract.js';
import { useDebezium } from '../../support/debezium-run.js';
import { KafkaConnect } from '../../support/kafka-connect.js';
import { canStart, startOwnPostgres, type OwnDatabase } from '../../support/own-database.js';
import { describeUnlessMissing, serviceUrl, type Program, type Service } from '../../support/services.js';
import { until } from '../../support/until.js';

const missing: (Service | Program)[] = [
  ...(canStart.postgres ? [] : (['postgres'] as const)),
  ...(serviceUrl('kafka') === undefined ? (['kafka'] as const) : []),
  ...(KafkaConnect.isInstalled ? [] : (['debezium'] as const)),
];

describeUnlessMissing(missing, 'Debezium on PostgreSQL', () => {
  let own: OwnDatabase;
  const start = useDebezium('postgres', async () => {
    own = await startOwnPostgres({ wal_level: 'logical' });
    return own.url;
  });
  afterAll(() => own.stop());

  describeDebezium('postgres', start);
  describeDebeziumStops(start);
  describeDebeziumBeside(start);

  it('Z12: cannot use a slot that the server ended; once that is dropped, routes all rows that are still there: nothing is missing, all comes twice', async () => {
    const run = await start();
    const { admin, connector } = run.source;
    const slot = async (): Promise<string | undefined> => {
      const sql = 'select wal_status from pg_replication_slots where slot_name = $1';
      const [found] = (await admin.query(sql, [connector.config['slot.name']])) as { wal_status: string }[];
      return found?.wal_status;
    };
    /** Four files of the log, of 16 MiB each, of which the server may let go. */
    const writeLog = async (): Promise<void> => {
      for (let file = 0; file < 4; file++)
        await admin.query(`select pg_logical_emit_message(false, 'test', ''), pg_switch_wal()`);
      await admin.query('checkpoint');
    };
    const limit = async (change: string): Promise<void> => {
      await admin.query(`alter system ${change}`);
      await admin.query('select pg_reload_conf()');
    };
    await run.enqueue({ key: 'k', payload: 1, contentType: 'application/json' });
    await run.routed(1);
    await run.connect.remove(connector.name);
    for (const payload of [2, 3, 4]) await run.enqueue({ key: 'k', payload, contentType: 'application/json' });
    await writeLog();
    expect(await slot()).toBe('reserved'); // kept for it, however much it is
    await limit(`set max_slot_wal_keep_size = '1MB'`);
    await until(async () => {
      await writeLog();
      return (await slot()) === 'lost';
    });
    await limit('reset max_slot_wal_keep_size');
    const captured = run.capture();
    await until(async () => (await run.connect.log()).includes('Cannot obtain valid replication slot'));
    await run.source.dropSlot();
    await captured;
    await run.enqueue({ key: 'k', payload: 5, contentType: 'application/json' });
    expect((await run.routedOnce(5)).all).toEqual(['1', '1', '2', '3', '4', '5']);
  });

  it('Z13: lets the log of the server go while only other tables are written to', async () => {
    const run = await start();
    const { admin, connector } = run.source;
    await admin.query('create table other as select md5(n::text) from generate_series(1, 50000) n');
    const [{ end }] = (await admin.query('select pg_current_wal_lsn() as end')) as [{ end: string }];
    await until(async () => {
      const sql = 'select confirmed_flush_lsn >= $2::pg_lsn as past from pg_replication_slots where slot_name = $1';
      const [{ past }] = (await admin.query(sql, [connector.config['slot.name'], end])) as [{ past: boolean }];
      return past;
    });
    expect(await run.countRouted()).toBe(0);
  });

  it('Z6: routes what goes to one transport, where the publication says so', async () => {
    const run = await start();
    await run.source.admin.query('alter publication shop_outbox set table outbox_ready where (transport = 0)');
    await run.enqueue(
      { key: 'k', payload: 1, contentType: 'application/json', transport: 'second' },
      { key: 'k', payload: 2, contentType: 'application/json', transport: ['default', 'second'] },
    );
    expect((await run.routed(1)).map(({ value }) => String(value))).toEqual(['2']);
    await run.enqueue({ key: 'k', payload: 3, contentType: 'application/json' });
    expect((await run.routed(2)).map(({ value }) => String(value))).toEqual(['2', '3']);
  });
});
