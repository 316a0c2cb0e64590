import type { useDebezium } from '../support/debezium-run.js';
import { until } from '../support/until.js';

/** What hangs on the binary log of MySQL and MariaDB. */
export function describeDebeziumOnBinlog(start: ReturnType<typeof useDebezium>): void {
  it('Z12: routes all rows that are still there when its place in the log was purged: nothing is missing, all comes twice', async () => {
    const run = await start();
    const { name } = run.source.connector;
    await run.enqueue({ key: 'k', payload: 1, contentType: 'application/json' });
    await run.routed(1);
    // What a server says that has purged this file is what it says of a file that it never had.
    await run.connect.moveTo(name, { file: 'binlog.999999', pos: 4 });
    for (const payload of [2, 3, 4]) await run.enqueue({ key: 'k', payload, contentType: 'application/json' });
    await run.capture();
    await run.enqueue({ key: 'k', payload: 5, contentType: 'application/json' });
    expect((await run.routedOnce(5)).all).toEqual(['1', '1', '2', '3', '4', '5']);
  });

  it('Z13: moves on in the log of the server while only other tables are written to', async () => {
    const run = await start();
    const { admin, connector } = run.source;
    const place = async (): Promise<string> => {
      const [offset] = await run.connect.offsets(connector.name);
      return offset === undefined ? '' : `${String(offset['file'])} ${String(offset['pos']).padStart(12, '0')}`;
    };
    await admin.query('create table other (text char(32))');
    await admin.query('insert into other values (md5(1)), (md5(2))');
    const [{ File: file, Position: pos }] = (await admin.query('show master status')) as [
      { File: string; Position: number },
    ];
    // It says how far it is when something comes, and that is where the last transaction begins.
    await until(async () => {
      await admin.query('insert into other values (md5(3))');
      return (await place()) >= `${file} ${String(pos).padStart(12, '0')}`;
    });
    expect(await run.countRouted()).toBe(0);
  });
}
