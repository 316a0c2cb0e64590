// @tier all
import type { ChildProcess } from 'node:child_process';
import { DataSource } from 'typeorm';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { startFile } from '../support/own-process.js';
import { describeWith } from '../support/services.js';
import { until } from '../support/until.js';
import { end, expireLeases, heard } from './fleet.js';
import type { HandlerSettings } from './inbox-handler-process.js';

const PLACES = [
  ['postgres', 'in its database', undefined],
  ['mariadb', 'in its database', undefined],
  ['postgres', 'in another database', 'postgres'],
  ['postgres', 'in a MariaDB', 'mariadb'],
] as const;
const POINTS = [
  ['before the commit', 'commit', 0],
  ['between the commit and the settlement', 'settlement', 1],
] as const;

describeWith(['postgres', 'mariadb'], 'a handler of an outbox with @Idempotent(), in a process that is killed', () => {
  const databases: TestDatabase[] = [];
  const opened: DataSource[] = [];
  const children: ChildProcess[] = [];
  afterEach(async () => {
    for (const child of children.splice(0)) await end(child, 'SIGKILL');
    for (const dataSource of opened.splice(0)) await dataSource.destroy();
    for (const database of databases.splice(0)) await database.drop();
  });

  const open = async (kind: 'postgres' | 'mariadb') => {
    const database = await createTestDatabase(kind);
    databases.push(database);
    const dataSource = await new DataSource(database.options).initialize();
    opened.push(dataSource);
    return { url: database.url, dataSource };
  };
  const start = (settings: HandlerSettings): ChildProcess => {
    const child = startFile('test/processes/inbox-handler-process.ts', { HANDLER: JSON.stringify(settings) });
    children.push(child);
    return child;
  };

  it.each(
    PLACES.flatMap(([kind, place, other]) =>
      POINTS.map(([point, ...rest]) => [kind, place, point, other, ...rest] as const),
    ),
  )('of an outbox on %s, has its effect %s once: %s', async (kind, _place, _point, other, hangsBefore, repetitions) => {
    const outbox = await open(kind);
    const books = other === undefined ? outbox : await open(other);
    await books.dataSource.query('create table ledger (order_id varchar(40) not null)');
    const ledger = (): Promise<unknown> => books.dataSource.query('select order_id from ledger');
    const settings = { url: outbox.url, ...(other !== undefined && { elsewhere: books.url }) };

    const victim = start({ ...settings, hangsBefore });
    const refused = other === undefined ? undefined : heard(victim, 'TRANSACTION_REQUIRED');
    await heard(victim, 'hangs');
    await refused;
    await end(victim, 'SIGKILL');
    expect(await ledger()).toHaveLength(repetitions);
    await expireLeases(outbox.dataSource);
    const next = start({ ...settings, hangsBefore: 'never' });
    await until(async () => {
      const [row] = (await outbox.dataSource.query('select count(*) as n from outbox_ready')) as [{ n: string }];
      return Number(row.n) === 0;
    });
    expect(await ledger()).toEqual([{ order_id: 'one' }]);
    const inbox = await books.dataSource.query('select consumer, duplicates from outbox_inbox');
    expect(inbox).toEqual([{ consumer: 'ledger', duplicates: repetitions }]);
    await end(next, 'SIGTERM');
  });
});
