// @tier gate
import { Registry } from 'prom-client';
import { DataSource, type EntityManager } from 'typeorm';
import { inProcess, OutboxModule, OutboxService } from '../../lib/index.js';
import { getInboxToken, InboxCleaner, InboxModule, InboxService, type InboxCounts } from '../../lib/inbox/index.js';
import { uuidV7 } from '../../lib/message/uuid-v7.js';
import { InboxPrometheus, OutboxPrometheus } from '../../lib/prometheus/index.js';
import { describeOnFewer } from '../support/services.js';
import { build, quiet, typeOrm, useApplications } from './support/app.js';

const NONE = { handled: 0, duplicate: 0, stale: 0, busy: 0, failed: 0, retried: 0 };

describeOnFewer([], 'what an inbox tells of itself', (kind) => {
  const { applications, database } = useApplications(kind, 'test');
  const create = { setup: 'create' } as const;
  const inboxes = [
    InboxModule.forRoot({ database: create, retention: '1d' }),
    InboxModule.forRoot({ name: 'reports', database: { ...create, prefix: 'reports_' } }),
  ];
  const metricsOf = (registry: Registry, name?: string) => ({
    provide: `metrics of ${name}`,
    inject: [getInboxToken(name)],
    useFactory: (inbox: InboxService) => new InboxPrometheus(inbox, { registry }),
  });
  const start = async (registry = new Registry()) => {
    const few = { ...database, options: { ...database.options, poolSize: 5 } } as typeof database;
    const metrics = [metricsOf(registry), metricsOf(registry, 'reports')];
    const app = await applications.start(build([typeOrm(few), ...inboxes], metrics));
    const db = app.get(DataSource);
    await db.query('create table bills (id varchar(40) not null)');
    return {
      app,
      db,
      inbox: app.get(InboxService),
      reports: app.get<InboxService>(getInboxToken('reports')),
      registry,
    };
  };
  const bill = (tx: object, id: string) => (tx as EntityManager).query(`insert into bills values ('${id}')`);
  const lines = async (registry: Registry, pattern: RegExp): Promise<string[]> =>
    (await registry.metrics())
      .split('\n')
      .filter((line) => !line.startsWith('#') && pattern.test(line))
      .sort();
  const aged = (days: number): string =>
    kind === 'postgres' ? `now() - interval '${days} days'` : `utc_timestamp(6) - interval ${days} day`;

  it('counts each of 50 deliveries at once of 10 messages over 5 connections', async () => {
    const { db, inbox } = await start();
    const ids = Array.from({ length: 10 }, () => uuidV7());
    const deliveries = Array.from({ length: 50 }, (_, n) => ids[n % ids.length] as string);
    await Promise.all(deliveries.map((id) => inbox.once(id, (tx) => bill(tx, id))));
    expect(inbox.counts()).toEqual([{ ...NONE, consumer: 'default', handled: 10, duplicate: 40 }]);
    expect(await db.query('select id from bills')).toHaveLength(10);
  });

  it('counts an effect when it is committed, whoever commits, and else what became of it', async () => {
    const { db, inbox } = await start();
    const told = (consumer: string): Partial<InboxCounts> | undefined =>
      inbox.counts().find((one) => one.consumer === consumer);
    const no = new Error('no');
    const once = (consumer: string, tx?: EntityManager, id = uuidV7()) =>
      inbox.once(id, { consumer, ...(tx && { tx }) }, (own) => bill(own, consumer));

    await expect(inbox.once(uuidV7(), { consumer: 'throws' }, () => Promise.reject(no))).rejects.toBe(no);
    expect(told('throws')).toEqual({ ...NONE, consumer: 'throws', failed: 1 });

    await db.transaction(async (tx) => {
      await once('joined', tx);
      expect(told('joined')).toBeUndefined();
    });
    expect(told('joined')).toMatchObject({ handled: 1, failed: 0 });
    const undone = db.transaction(async (tx) => {
      await once('undone', tx);
      throw no;
    });
    await expect(undone).rejects.toBe(no);
    expect(told('undone')).toEqual({ ...NONE, consumer: 'undone', failed: 1 });

    await db.transaction(async (tx) => {
      const nested = tx.transaction(async (inner) => {
        await once('nested', inner);
        throw no;
      });
      await expect(nested).rejects.toBe(no);
      await once('outer', tx);
    });
    expect([told('nested'), told('outer')]).toMatchObject([
      { handled: 0, failed: 1 },
      { handled: 1, failed: 0 },
    ]);

    const refuse = { consumer: 'busy', onConcurrent: 'refuse' } as const;
    const id = uuidV7();
    await inbox.once(id, refuse, async () => {
      const apart = db.transaction((tx) => inbox.once(id, { ...refuse, tx }, () => undefined));
      await expect(apart).rejects.toMatchObject({ code: 'IN_PROGRESS' });
    });
    expect(told('busy')).toMatchObject({ handled: 1, busy: 1 });

    for (const latest of [2, 1, 2, 3])
      await inbox.once(
        { id: uuidV7(), type: 't', contentType: 'text/plain', key: 'k' },
        { consumer: 'latest', latest },
        () => undefined,
      );
    expect(told('latest')).toEqual({ ...NONE, consumer: 'latest', handled: 2, stale: 2 });

    await expect(inbox.once('a', { consumer: 'not a name' }, () => undefined)).rejects.toMatchObject({
      code: 'INVALID_OPTIONS',
    });
    expect(told('not a name')).toBeUndefined();
  });

  it('is scraped without an outbox, two inboxes with one consumer apart, and tells of ids that nobody removes', async () => {
    const { app, db, inbox, reports, registry } = await start();
    expect(await inbox.age()).toEqual({ oldest: 0, overdue: 0 });
    for (const id of ['a', 'b', 'a']) await inbox.once(id, () => undefined);
    await reports.once('a', () => undefined);
    await db.query(`update outbox_inbox set received_at = ${aged(3)} where message_id = 'a'`);
    const about = 'consumer="default",result=';
    expect(await lines(registry, /messages_total\{.*(handled|duplicate)/)).toEqual([
      `outbox_inbox_messages_total{inbox="default",${about}"duplicate"} 1`,
      `outbox_inbox_messages_total{inbox="default",${about}"handled"} 2`,
      `outbox_inbox_messages_total{inbox="reports",${about}"duplicate"} 0`,
      `outbox_inbox_messages_total{inbox="reports",${about}"handled"} 1`,
    ]);
    expect(await lines(registry, /retries/)).toHaveLength(2);
    const shown = await lines(registry, /(age|overdue)_seconds/);
    const seconds = Object.fromEntries(
      shown.map((line) => line.split(' ')).map(([name, value]) => [name, Number(value)]),
    );
    const day = 86_400;
    expect(Math.floor((seconds['outbox_inbox_oldest_age_seconds{inbox="default"}'] ?? 0) / day)).toBe(3);
    expect(Math.floor((seconds['outbox_inbox_overdue_seconds{inbox="default"}'] ?? 0) / day)).toBe(2);
    expect(Object.keys(seconds)).toHaveLength(4);
    expect(seconds['outbox_inbox_overdue_seconds{inbox="reports"}']).toBe(0);
    await app.get(InboxCleaner).runOnce();
    expect(await inbox.age()).toMatchObject({ overdue: 0 });
    await applications.close();
    expect(registry.getMetricsAsArray()).toEqual([]);
  });

  it('has its counts in a scrape that finds no tables', async () => {
    const { db, inbox, registry } = await start();
    await inbox.once('a', () => undefined);
    for (const table of ['outbox_inbox', 'outbox_inbox_latest']) await db.query(`drop table ${table}`);
    await expect(inbox.once('b', () => undefined)).rejects.toThrow();
    expect(await lines(registry, /inbox="default".*(handled|failed)/)).toEqual([
      'outbox_inbox_messages_total{inbox="default",consumer="default",result="failed"} 1',
      'outbox_inbox_messages_total{inbox="default",consumer="default",result="handled"} 1',
    ]);
    expect(await lines(registry, /inbox="default".*seconds|seconds.*inbox="default"/)).toEqual([]);
    await expect(inbox.age()).rejects.toThrow();
  });

  it('is shown beside an outbox, once, and stays when that one goes', async () => {
    const registry = new Registry();
    const outbox = OutboxModule.forRoot(quiet({ relay: 'manual', transports: { default: inProcess() } }));
    const app = await applications.start(build([typeOrm(database), outbox, ...inboxes], [metricsOf(registry)]));
    const ofOutbox = new OutboxPrometheus(app.get(OutboxService), { registry, countEvery: null });
    await app.get(InboxService).once('a', () => undefined);
    expect(await lines(registry, /^outbox_warnings_total|handled/)).toHaveLength(2);
    ofOutbox.close();
    expect(await lines(registry, /./)).toEqual(await lines(registry, /^outbox_inbox_/));
    expect(await lines(registry, /handled"\} 1$/)).toHaveLength(1);
    expect(() => new InboxPrometheus(app.get(InboxService), { registry })).toThrow(
      "The registry shows an inbox 'default' already.",
    );
  });
});
