import { setTimeout as pause } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { PostgresStore } from '../../../lib/store/postgres/store.js';
import { WakeListener } from '../../../lib/relay/wake/wake-listener.js';
import { FakeClock } from '../../../lib/testing/fake-clock.js';
import { eachFrame } from '../../support/frames.js';
import { CALM, Ledger, Writers } from '../../support/ledger.js';
import { createHarness, newMessage, RecordedHooks, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';

const text = (value: string | number): Buffer => Buffer.from(String(value));

/** Rows E6–E12 of the failure catalogue: what administrators, the disk and the application do to the database. */
describe.each(DATABASES)('%s', (kind) => {
  describeWith(kind, 'limits of the database', () => {
    let harness: Harness;
    const closing: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0).reverse()) await close();
      await harness.close();
    });
    const connect = async (extra: object = {}): Promise<DataSource> => {
      const source = await new DataSource({ ...harness.database.options, ...extra } as never).initialize();
      closing.push(() => source.destroy());
      return source;
    };

    it('E6: tables that are there are not locked by a start with setup: create, whatever transactions are open', async () => {
      harness = await createHarness(kind, { buckets: 4 });
      const open = await connect();
      const runner = open.createQueryRunner();
      await runner.startTransaction();
      closing.push(() => runner.rollbackTransaction().then(() => runner.release()));
      const rows = [newMessage({}, 4), newMessage({ delay: 60_000 }, 4), newMessage({ dedupKey: 'once' }, 4)];
      await harness.store.writer.insert(transactionExecutor(runner), rows);
      await runner.query('select count(*) from outbox_messages');
      const { store } = harness.relay();
      await store.setup.create(harness.options); // the transaction never ends
      await harness.enqueue([{ delay: 60_000 }]);
    });

    it('E12: an application that is SERIALIZABLE throughout fails as often as without the outbox, and loses nothing', async () => {
      harness = await createHarness(kind, { buckets: 4, pollInterval: 50 });
      const transport = new ScriptedTransport();
      await harness.relay({ default: transport }).dispatcher.start();
      const source = await connect({ poolSize: 16 });
      await source.query('create table business (id varchar(40) primary key)');
      const committed: string[] = [];
      const failed: unknown[] = [];
      const writer = async (w: number): Promise<void> => {
        for (let n = 0; n < 25; n += 1) {
          const name = `${w}:${n}`;
          try {
            await source.transaction('SERIALIZABLE', async (manager) => {
              await manager.query(`insert into business values ('${name}')`);
              const message = newMessage({ key: `k${n % 3}`, payload: text(name) }, 4);
              await harness.store.writer.insert(transactionExecutor(manager.queryRunner as never), [message]);
            });
            committed.push(name);
          } catch (error) {
            failed.push(error);
          }
        }
      };
      await Promise.all(Array.from({ length: 16 }, (_, w) => writer(w)));
      expect(failed).toEqual([]); // rows of their own: nothing of the outbox makes them depend on each other
      await transport.until(() => transport.published.length >= committed.length);
      expect(transport.texts.sort()).toEqual(committed.sort());
    });

    it('E11: statements cancelled by an administrator’s limits: nobody is charged, nothing is lost, it goes on', async () => {
      harness = await createHarness(kind, { buckets: 4, pollInterval: 50 });
      const ledger = new Ledger();
      const writers = await Writers.open(harness, ledger, 2);
      closing.push(() => writers.close());
      const { dispatcher, hooks } = harness.relay({ default: ledger.transport() });
      await dispatcher.start();
      for (let w = 0; w < 2; w += 1) writers.start(`w${w}`, { pauseMs: 5 });
      const database = new URL(harness.database.url).pathname.slice(1);
      // What a limit does to a statement, to every statement of the relay that happens to run: it is cancelled.
      const cancel =
        kind === 'postgres'
          ? `select pg_cancel_backend(pid) from pg_stat_activity where datname = '${database}' and application_name = 'nestjs-outbox' and state = 'active'`
          : undefined;
      const from = performance.now();
      for (let round = 0; round < 200 && performance.now() - from < 20_000; round += 1) {
        if (cancel !== undefined) await harness.dataSource.query(cancel);
        else await cancelMariaDb(harness.dataSource, database);
        await pause(5); // of load
      }
      await writers.end();
      await until(() => ledger.complete, 120_000);
      await until(async () => (await harness.count('ready')) === 0, 60_000);
      expect(ledger.verdict()).toMatchObject({ lost: CALM.lost, ghosts: CALM.ghosts, outOfOrder: CALM.outOfOrder });
      expect(hooks.of('dead')).toEqual([]);
      expect(hooks.of('retried')).toEqual([]);
    });
  });
});

/** MariaDB's own limit, on the session variable, is set at connect; KILL QUERY is the same from outside. */
async function cancelMariaDb(admin: DataSource, database: string): Promise<void> {
  const rows = (await admin.query(
    `select id from information_schema.processlist where db = '${database}' and command in ('Query', 'Execute')
       and id <> connection_id() and (info like '%outbox_ready%' or info like '%outbox_parked%' or info like '%outbox_leases%') and info not like 'insert%'`,
  )) as { id: number }[];
  for (const { id } of rows) await admin.query(`kill query ${id}`).catch(() => undefined);
}

describeWith('postgres', 'limits of PostgreSQL', () => {
  let harness: Harness;
  const closing: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
    await harness.close();
  });

  /** Hears through a proxy, tells beside it: the same process with a listener that nobody answers. */
  async function listenThrough(proxy: TcpProxy) {
    const url = new URL(harness.database.url);
    url.port = String(proxy.port);
    url.hostname = proxy.host;
    const through = await new DataSource({ ...harness.database.options, url: url.href } as never).initialize();
    const { store: deaf } = harness.relay({}, {}, { dataSource: through });
    closing.push(
      () => proxy.close(),
      () => through.destroy(),
    );
    const [clock, hooks] = [new FakeClock(), new RecordedHooks()];
    const listened = { clock, hooks, heard: 0 };
    const listener = new WakeListener(
      { listen: (...args) => deaf.listen!(...args), notify: (...args) => harness.store.notify!(...args) },
      clock,
      hooks,
      () => (listened.heard += 1),
    );
    listener.start();
    await clock.advance(0);
    closing.push(() => listener.stop());
    await until(() => listened.heard === 3); // connected: what was committed before is looked for
    return listened;
  }

  it('E7: a listener whose connection went deaf without a word is found by its silence, and replaced', async () => {
    harness = await createHarness('postgres', { buckets: 4 });
    const proxy = await TcpProxy.start(harness.database.url, { silent: true });
    const listened = await listenThrough(proxy);
    const { clock } = listened;
    await harness.store.notify!();
    await until(() => listened.heard === 4);
    proxy.set({ up: 'drop', down: 'drop' });
    let told = 0;
    const living = await harness.store.listen!(
      () => (told += 1),
      () => undefined,
    );
    closing.push(() => living!.close());
    await harness.store.notify!();
    await until(() => told === 1);
    await clock.advance(30_000);
    await clock.advance(30_000); // silence: asks for an echo
    await until(() => told === 2 && clock.nextIn === 5_000); // which a living listener hears
    expect(listened.heard).toBe(4);
    proxy.heal();
    await clock.advance(5_000);
    await until(() => listened.heard === 7); // a new connection
    await harness.store.notify!();
    await until(() => listened.heard === 8);
  });

  it('E7: where notifications never arrive, as behind a transaction pooler, that is told once, and tried ever more rarely', async () => {
    harness = await createHarness('postgres', { buckets: 4 });
    const proxy = await TcpProxy.start(harness.database.url);
    // A pooler: LISTEN succeeds, and what the server then tells its session goes nowhere.
    const sizeOf = (bytes: Buffer): number | undefined => (bytes.length < 5 ? undefined : 1 + bytes.readUInt32BE(1));
    const withoutNotifications = (frame: Buffer): Buffer => (frame[0] === 0x41 ? Buffer.alloc(0) : frame);
    const pooled = proxy.intercept;
    proxy.intercept = () => ({ up: (bytes) => bytes, down: eachFrame(sizeOf, withoutNotifications) });
    const listened = await listenThrough(proxy);
    const { clock, hooks } = listened;
    /** It asks for an echo, which does not come, and connects again. */
    const cycle = async (connections: number): Promise<void> => {
      await clock.advance(clock.nextIn as number);
      await until(() => clock.nextIn === 5_000);
      await clock.advance(5_000);
      await until(() => listened.heard === 3 * connections && clock.nextIn !== undefined);
    };
    for (const connections of [2, 3]) await cycle(connections);
    expect([hooks.of('warning'), clock.nextIn]).toEqual([[], 30_000]);
    await cycle(4);
    expect(hooks.of('warning')).toEqual([{ text: expect.stringMatching(/no notification arrives.*wakeUp: 'poll'/) }]);
    expect(clock.nextIn).toBe(300_000);
    proxy.intercept = pooled;
    await cycle(5);
    expect([hooks.of('warning').length, clock.nextIn]).toEqual([1, 300_000]);
    await harness.store.notify!();
    await until(() => listened.heard === 16); // the way is free
    await clock.advance(300_000);
    await until(() => clock.nextIn === 30_000);
    expect(hooks.of('error')).toEqual([]);
  });

  it('E8: what reads notifications late, or never, delays no commit: none is sent in the business transaction', async () => {
    harness = await createHarness('postgres', { buckets: 4 });
    const { dataSource, store } = harness;
    const lazy = dataSource.createQueryRunner();
    await lazy.connect();
    await lazy.query(`listen "${(store as PostgresStore).channel}"`);
    await lazy.startTransaction(); // from now on the queue of notifications cannot be emptied
    closing.push(() => lazy.rollbackTransaction().then(() => lazy.release()));
    await lazy.query('select 1');
    let heard = 0;
    const prompt = await store.listen!(
      () => (heard += 1),
      () => undefined,
    );
    closing.push(() => prompt!.close());
    for (let n = 0; n < 50; n += 1) await harness.enqueue([{ payload: text(n) }]);
    await store.notify!();
    await until(() => heard > 0); // they come in their order
    expect(heard).toBe(1); // enqueueing says nothing
    const transport = new ScriptedTransport();
    const { dispatcher } = harness.relay({ default: transport });
    await dispatcher.start();
    await transport.until(() => transport.published.length === 50);
  });
});
