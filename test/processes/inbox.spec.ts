// @tier gate
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { inboxSql } from 'nestjs-outbox/inbox';
import { rabbitmq } from 'nestjs-outbox/rabbitmq';
import { DataSource } from 'typeorm';
import { OutboxService } from '../../lib/index.js';
import { createTestDatabase, runScript, type TestDatabase } from '../support/databases.js';
import { startProducer } from '../support/nest-consumer.js';
import { startFile } from '../support/own-process.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeOnFewer, dialectOf, requiredUrl } from '../support/services.js';
import type { InboxSettings } from './inbox-process.js';

describeOnFewer(['postgres', 'rabbitmq'], 'a consumer with an inbox that is killed', (kind) => {
  let databases: TestDatabase[];
  let dataSource: DataSource;
  let observer: RabbitMqObserver;
  const children: ChildProcess[] = [];

  beforeAll(async () => {
    databases = [await createTestDatabase('postgres'), await createTestDatabase(kind)];
    dataSource = await new DataSource((databases[1] as TestDatabase).options).initialize();
    await runScript(kind, dataSource, inboxSql(dialectOf(kind)).up);
    await dataSource.query('create table invoices (id varchar(40) not null)');
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  afterEach(async () => {
    for (const child of children.splice(0)) await end(child, 'SIGKILL');
    await dataSource.query('delete from invoices');
    await dataSource.query('delete from outbox_inbox');
  });
  afterAll(async () => {
    await observer.close();
    await dataSource.destroy();
    for (const database of databases) await database.drop();
  });

  const start = (queue: string, hangsBefore: InboxSettings['hangsBefore']): ChildProcess => {
    const { url } = databases[1] as TestDatabase;
    const settings: InboxSettings = { url, rabbit: requiredUrl('rabbitmq'), queue, hangsBefore };
    const child = startFile('test/processes/inbox-process.ts', { INBOX: JSON.stringify(settings) });
    children.push(child);
    return child;
  };

  it.each([
    ['before the commit', 'commit', 0, 0],
    ['between the commit and the acknowledgement', 'acknowledgement', 1, 1],
  ] as const)('%s: the message comes again, and its effect is there once', async (_, point, before, duplicates) => {
    const queue = await observer.queue();
    const producer = await startProducer(databases[0] as TestDatabase, rabbitmq({ url: requiredUrl('rabbitmq') }));
    const message = { type: 'order.placed', topic: queue, key: 'k', payload: {} };
    const id = await producer.get(OutboxService).enqueueOutsideTransaction(message);
    const invoices = (): Promise<unknown> => dataSource.query('select id from invoices');

    const victim = start(queue, point);
    expect(await heard(victim)).toEqual({ hangs: true });
    await end(victim, 'SIGKILL');
    expect(await invoices()).toHaveLength(before);
    expect(await heard(start(queue, 'never'))).toEqual({ acknowledged: true });
    expect(await invoices()).toEqual([{ id }]);
    const inbox = await dataSource.query('select consumer, message_id, duplicates from outbox_inbox');
    expect(inbox).toEqual([{ consumer: 'Billing.placed', message_id: id, duplicates }]);
    for (const child of children.splice(0)) await end(child, 'SIGTERM');
    expect(await observer.depth(queue)).toBe(0);
    await producer.close();
  });
});

/** The first that it tells. */
async function heard(child: ChildProcess): Promise<unknown> {
  const signal = AbortSignal.timeout(60_000);
  const [news] = (await Promise.race([once(child, 'message', { signal }), once(child, 'exit', { signal })])) as [
    unknown,
  ];
  return news;
}

async function end(child: ChildProcess, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit', { signal: AbortSignal.timeout(60_000) });
  child.kill(signal);
  await exited;
}
