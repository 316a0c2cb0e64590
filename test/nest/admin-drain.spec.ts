import type { TestingModule } from '@nestjs/testing';
import { DataSource, type QueryRunner } from 'typeorm';
import { OutboxAdmin, OutboxModule, OutboxService, type DrainProgress, type OutboxOptions } from '../../lib/index.js';
import { PAGE_LOOK } from '../../lib/store/inspect-store.js';
import { series } from '../support/databases.js';
import { describeOnEach } from '../support/services.js';
import {
  useApplications,
  build,
  CollectingTransport,
  GatedTransport,
  MoodyTransport,
  quiet,
  typeOrm,
  until,
} from './support/app.js';

describeOnEach([], 'OutboxAdmin.drain, beside a running relay', (kind) => {
  let app: TestingModule;
  let admin: OutboxAdmin;
  let outbox: OutboxService;
  const { applications, database } = useApplications(kind, 'test');
  const start = async (options: Partial<OutboxOptions>): Promise<void> => {
    // While a test holds a publish no time of the relay's runs out.
    const patient = quiet({ lease: '10m', publishTimeout: '5m', ...options });
    app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(patient)]));
    [admin, outbox] = [app.get(OutboxAdmin), app.get(OutboxService)];
  };
  const enqueue = (messages: readonly object[], options = {}): Promise<string[]> =>
    outbox.enqueueOutsideTransaction(
      messages.map((one) => ({ type: 'a', topic: 'a', payload: 1, ...one })) as never,
      options,
    );
  const query = (sql: string): Promise<Record<string, unknown>[]> => app.get(DataSource).query(sql);

  it('waits for what was there, and not for what came later', async () => {
    const slow = new GatedTransport();
    await start({ transports: { default: slow } });
    await enqueue(Array.from({ length: 20 }, (_, n) => ({ key: `k${n}` })));
    const seen: DrainProgress[] = [];
    let later: Promise<string[]> | undefined;
    const report = await admin.drain({
      progress: (progress) => {
        seen.push(progress);
        // Behind the mark: it would never be empty if it were waited for.
        later ??= enqueue([{ key: 'later' }]).finally(() => slow.gate.open());
      },
    });
    expect(report).toMatchObject({ outcome: 'drained', left: 0, isExact: true, reasons: [] });
    expect(seen[0]).toEqual({ left: 20, isExact: true, fraction: 0, error: null });
    expect(seen.at(-1)).toEqual({ left: 0, isExact: true, fraction: 1, error: null });
    await later;
    expect(slow.ids.length).toBeGreaterThanOrEqual(20);
  });

  it('does not wait for what is dead or scheduled, and says how much that is', async () => {
    const moody = new MoodyTransport();
    await start({ transports: { default: moody }, retry: { maxAttempts: 1 } });
    await enqueue([{ key: null }, { key: null }, { key: null }]);
    await enqueue([{ key: 'b' }], { delay: '1h' });
    const report = await admin.drain();
    const transports = [{ transport: 'default', ready: 0, parked: 0, dead: 3, scheduled: 1 }];
    expect(report).toMatchObject({ outcome: 'drained', left: 0, transports, reasons: [] });
    expect(await admin.audit()).toEqual({ entries: [], next: null });
  });

  it('says of what is left why, each cause once: dead messages before it, and a transport without a relay', async () => {
    const both = { default: new CollectingTransport(), other: new CollectingTransport() };
    await start({ transports: both, defaultTransport: 'default', relay: false });
    const [stuck] = await enqueue([{ key: 'x', transport: ['other'] }]);
    await applications.close();
    const moody = new MoodyTransport();
    await start({ transports: { default: moody }, retry: { maxAttempts: 1 } });
    const [dead] = await enqueue([{ key: 'a' }]);
    await admin.drain({ transport: 'default' });
    moody.refuses = false;
    await enqueue([{ key: 'a' }, { key: 'a' }, { key: 'free' }]);
    await until(async () => {
      const { ready, blocked } = (await outbox.stats()).transports['default'] ?? {};
      return ready === 0 && blocked === 2;
    });
    const report = await admin.drain({ timeout: '1s' });
    expect(report).toMatchObject({ outcome: 'timeout', left: 3, isExact: true });
    expect(report.took).toBeGreaterThanOrEqual(1_000);
    expect(report.transports).toMatchObject([
      { transport: 'default', ready: 0, parked: 2, dead: 1 },
      { transport: 'other', ready: 1, parked: 0, dead: 0 },
    ]);
    expect(report.reasons).toMatchObject([
      { code: 'no-relay', transport: 'other', id: stuck },
      { code: 'blocked', transport: 'default', facts: { behind: dead } },
    ]);
    expect(await admin.drain({ transport: 'other', timeout: 0 })).toMatchObject({
      ...{ outcome: 'timeout', left: 1, transports: [{ transport: 'other' }] },
    });
    await admin.discard({ ids: [dead as string] });
    expect(await admin.drain({ transport: 'default' })).toMatchObject({ outcome: 'drained' });
  });

  const dueNow = kind === 'postgres' ? 'now()' : 'utc_timestamp(6)';
  /** One that is scheduled, and whose time has come; and one whose time is far. */
  const scheduled = async (): Promise<string> => {
    const [id = ''] = await enqueue([{ key: 'a' }], { delay: 1 });
    await enqueue([{ key: 'b' }], { delay: '1h' });
    await until(async () => (await query(`select 1 from outbox_parked where due_at <= ${dueNow}`)).length === 1);
    return id;
  };

  it('a scheduled message that is due is left while its transport is paused', async () => {
    const transport = new CollectingTransport();
    await start({ transports: { default: transport } });
    await admin.pause({ transport: 'default', reason: 'audit' });
    await until(async () => (await outbox.health()).transports['default']?.paused !== null);
    const id = await scheduled();
    const report = await admin.drain({ timeout: 0 });
    expect(report).toMatchObject({ outcome: 'timeout', left: 1, isExact: true });
    expect(report.transports).toMatchObject([{ transport: 'default', ready: 0, parked: 1 }]);
    expect(report.reasons).toMatchObject([{ code: 'paused', transport: 'default', id }]);
    await admin.resume({ transport: 'default' });
    expect(await admin.drain()).toMatchObject({ outcome: 'drained', left: 0, transports: [{ scheduled: 1 }] });
    expect(transport.ids).toEqual([id]);
  });

  it('goes on past a look that fails', async () => {
    const slow = new GatedTransport();
    await start({ transports: { default: slow } });
    await enqueue([{ key: 'a' }]);
    const { inspect } = admin.actions;
    const look = inspect.buckets.bind(inspect);
    const seen: DrainProgress[] = [];
    const progress = (now: DrainProgress): void => {
      seen.push(now);
      const hasFailed = seen.some(({ error }) => error !== null);
      inspect.buckets = hasFailed ? look : () => Promise.reject(new Error('gone away'));
      if (hasFailed) slow.gate.open();
    };
    expect(await admin.drain({ progress })).toMatchObject({ outcome: 'drained' });
    expect(seen[0]).toMatchObject({ left: 1, error: null });
    expect(seen).toContainEqual(expect.objectContaining({ left: 1, error: 'gone away' }));
    expect(seen.at(-1)).toMatchObject({ left: 0, error: null });
    inspect.find = () => Promise.reject(new Error('gone away'));
    await expect(admin.drain({ timeout: 0 })).rejects.toThrow('gone away');
  });

  it('finds the one that waits behind more scheduled messages than a look comes past', async () => {
    const moody = new MoodyTransport();
    await start({ transports: { default: moody }, retry: { initial: '1h', max: '1h', maxAttempts: 9 } });
    const later = kind === 'postgres' ? `now() + interval '1 day'` : 'utc_timestamp(6) + interval 1 day';
    const [id, text] = kind === 'postgres' ? ['gen_random_uuid()', `'x'::bytea`] : ['uuid()', `'x'`];
    const from = kind === 'postgres' ? `generate_series(1, ${2 * PAGE_LOOK}) s` : series(kind, 2 * PAGE_LOOK);
    await query(`insert into outbox_parked (transport, bucket, id, topic, type, state, due_at, payload)
        select 0, 1, ${id}, 'a', 'a', 1, ${later}, ${text} from ${from}`);
    const [failed] = await enqueue([{ key: null }]);
    await until(async () => (await outbox.stats()).total.waiting === 1);
    const found = new AbortController();
    const progress = ({ left }: DrainProgress): void => void (left === 1 && found.abort());
    const report = await admin.drain({ signal: found.signal, progress });
    expect(report).toMatchObject({ outcome: 'aborted', left: 1, reasons: [{ code: 'waiting', id: failed }] });
    moody.refuses = false;
    await admin.requeue({ type: 'a', state: 'waiting' });
    expect(await admin.drain()).toMatchObject({ outcome: 'drained', transports: [{ scheduled: 2 * PAGE_LOOK }] });
  });

  it('what a transaction writes that is open is not waited for, and is there when it commits', async () => {
    await start({ transports: { default: new CollectingTransport() } });
    const runner: QueryRunner = app.get(DataSource).createQueryRunner();
    await runner.startTransaction();
    try {
      await outbox.enqueue(
        { type: 'a', topic: 'a', key: 'open', payload: 1 } as never,
        { manager: runner.manager } as never,
      );
      await enqueue([{ key: 'b' }]);
      const { outcome, openTransactions } = await admin.drain(); // the server has transactions of its own, too
      expect([outcome, (openTransactions ?? -1) > 0]).toEqual(['drained', kind === 'postgres']);
    } finally {
      await runner.commitTransaction();
      await runner.release();
    }
    expect(await admin.drain()).toMatchObject({ outcome: 'drained' });
  });

  it('refuses what makes no sense', async () => {
    await start({});
    for (const options of [
      { timeout: 'soon' },
      { timeout: '25d' },
      { signal: {} },
      { progress: 1 },
      { by: 'ann' },
      null,
    ])
      await expect(admin.drain(options as never)).rejects.toMatchObject({ code: 'INVALID_MESSAGE' });
    await expect(admin.drain({ transport: 'none' })).rejects.toMatchObject({ code: 'UNKNOWN_TRANSPORT' });
  });
});
