import { DataSource } from 'typeorm';
import { ProbedLowWaterMark } from '../../lib/relay/read/probed-low-water-mark.js';
import type { RelayLoops } from '../../lib/relay/relay-loops.js';
import { CALM, Ledger, Writers } from '../support/ledger.js';
import { createHarness, ScriptedTransport, type Harness } from '../support/relay.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { until } from '../support/until.js';
import type { DatabaseKind } from '../support/services.js';
import { isOfAnotherSecond } from './numbers.contract.js';

const text = (value: string | number) => Buffer.from(String(value));

/** What is done to the database under a running relay; each test some seconds. */
export function describeDatabaseFaults(kind: DatabaseKind): void {
  let harness: Harness;
  let writers: Writers | undefined;
  const closing: (() => Promise<unknown>)[] = [];
  afterEach(async () => {
    await writers?.close();
    writers = undefined;
    await harness?.close();
    for (const close of closing.splice(0)) await close();
  });

  const sql = (postgres: string, mariadb: string): string => (kind === 'postgres' ? postgres : mariadb);

  it('E2: connections killed again and again under load: nothing lost, order kept, nobody charged', async () => {
    harness = await createHarness(kind, { buckets: 4, pollInterval: 50 });
    const ledger = new Ledger();
    writers = await Writers.open(harness, ledger, 4);
    const own = await new DataSource(harness.database.options).initialize();
    closing.push(() => own.destroy());
    const spared = new Set<string>();
    const note = async (source: DataSource, connections: number): Promise<void> => {
      const runners = Array.from({ length: connections }, () => source.createQueryRunner());
      for (const runner of runners) {
        const [row] = (await runner.query(`select ${sql('pg_backend_pid()', 'connection_id()')} as id`)) as {
          id: number;
        }[];
        spared.add(String(row?.id));
      }
      await Promise.all(runners.map((runner) => runner.release()));
    };
    await note(writers.dataSource, 4);
    await note(harness.dataSource, 4);
    const { dispatcher, hooks } = harness.relay({ default: ledger.transport() }, {}, { dataSource: own });
    await dispatcher.start();
    for (let w = 0; w < 4; w += 1) writers.start(`w${w}`, { pauseMs: 2 });
    const database = new URL(harness.database.url).pathname.slice(1);
    const ofTheRelay = async (): Promise<string[]> => {
      const all = (await harness.dataSource.query(
        sql(
          `select pid as id from pg_stat_activity where datname = '${database}'`,
          `select id from information_schema.processlist where db = '${database}'`,
        ),
      )) as { id: number }[];
      return all.map(({ id }) => String(id)).filter((id) => !spared.has(id));
    };
    for (let round = 0; round < 12; round += 1) {
      // In the middle of its work: since the last time both sides got on, and it has connections again.
      const [committed, seen] = [ledger.committed.size, ledger.sightings.length];
      await until(() => ledger.committed.size >= committed + 20 && ledger.sightings.length >= seen + 20);
      let sessions: string[] = [];
      await until(async () => (sessions = await ofTheRelay()).length > 0);
      for (const id of sessions)
        await harness.dataSource.query(sql(`select pg_terminate_backend(${id})`, `kill ${id}`)).catch(() => undefined);
    }
    await writers.end();
    await until(() => ledger.complete, 120_000); // all of a load, on whatever machine
    await until(async () => (await harness.count('ready')) === 0);
    const { duplicates, ...verdict } = ledger.verdict();
    expect(verdict).toEqual({ lost: 0, ghosts: 0, outOfOrder: 0 });
    expect(duplicates).toBeLessThan(ledger.committed.size);
    expect(hooks.of('retried')).toEqual([]);
    expect(hooks.of('dead')).toEqual([]);
    expect(await harness.count('parked')).toBe(0);
  });

  it('E2: a database that is away for seconds: the relay tells it, asks seldom, comes back by itself, and nobody is charged', async () => {
    harness = await createHarness(kind, { buckets: 4 });
    const proxy = await TcpProxy.start(harness.database.url);
    const url = new URL(harness.database.url);
    url.port = String(proxy.port);
    url.hostname = proxy.host;
    const own = await new DataSource({ ...harness.database.options, url: url.href } as never).initialize();
    closing.push(
      () => own.destroy(),
      () => proxy.close(),
    );
    const ledger = new Ledger();
    const { dispatcher, hooks } = harness.relay({ default: ledger.transport() }, {}, { dataSource: own });
    await dispatcher.start();
    const enqueue = async (from: number): Promise<void> => {
      for (let n = from; n < from + 20; n += 1) {
        await harness.enqueue([{ key: 'k', payload: text(`k:${n}`) }]);
        ledger.committed.add(`k:${n}`);
      }
    };
    await enqueue(0);
    await until(() => ledger.complete);
    await proxy.refuse();
    proxy.cut();
    await enqueue(20);
    const failures = () => hooks.of('error').map(({ operation }) => operation);
    const toldBy = (operation: string): boolean => failures().some((each) => each === operation);
    await until(() => (dispatcher.status().storeDownFor ?? 0) > 2_500 && ['fetch', 'lease', 'take'].every(toldBy));
    expect(dispatcher.status().running).toBe(true);
    expect(failures().length).toBeLessThan(30 + (dispatcher.status().storeDownFor ?? 0) / 1_000); // pauses grow
    await proxy.accept();
    await until(() => ledger.complete);
    await until(() => dispatcher.status().storeDownFor === null);
    await enqueue(40);
    await until(() => ledger.complete);
    expect(ledger.verdict()).toMatchObject({ lost: 0, ghosts: 0, outOfOrder: 0 });
    expect(hooks.of('retried')).toEqual([]);
    expect(await harness.count('parked')).toBe(0);
  });

  it('rows survive our own connections when the application empties its database at start', async () => {
    harness = await createHarness(kind);
    const application = new DataSource({ ...harness.database.options });
    await application.initialize();
    closing.push(() => application.destroy());
    // As if it had been started with them; from now on every DataSource of these options drops all tables.
    Object.assign(application.options, { dropSchema: true, synchronize: true, migrationsRun: true });
    await harness.enqueue([{ payload: text('kept') }, { payload: text('later'), delay: 3_600_000 }]);
    const transport = new ScriptedTransport();
    const { dispatcher } = harness.relay({ default: transport }, {}, { dataSource: application });
    await dispatcher.start();
    await transport.until(() => transport.published.length === 1);
    await dispatcher.stop();
    expect(transport.texts).toEqual(['kept']);
    expect(await harness.count('parked')).toBe(1);
  });

  async function relayOfLedger() {
    harness = await createHarness(kind, { buckets: 4, pollInterval: 50 });
    const ledger = new Ledger();
    const publish = async (from: number, to: number): Promise<void> => {
      const names = Array.from({ length: to - from }, (_, i) => `k:${from + i}`);
      await harness.enqueue(names.map((name) => ({ key: 'k', payload: text(name) })));
      for (const name of names) ledger.committed.add(name);
    };
    const drop = async (...tables: string[]): Promise<void> => {
      for (const table of tables) await harness.dataSource.query(`drop table outbox_${table}${sql(' cascade', '')}`);
      if (kind !== 'postgres') await harness.dataSource.query('drop view outbox_messages');
    };
    const relay = harness.relay({ default: ledger.transport() });
    await relay.dispatcher.start();
    await publish(0, 5);
    await until(() => ledger.complete);
    await until(async () => (await harness.count('ready')) === 0);
    return { ...relay, ledger, publish, drop };
  }

  it('E13: tables dropped under a running relay: it says so, goes on, and works when they are back', async () => {
    const { dispatcher, hooks, ledger, publish, drop } = await relayOfLedger();
    await drop('ready', 'parked', 'archive', 'leases', 'instances', 'dedup', 'meta', 'transports');
    await hooks.until('error', 3);
    expect(dispatcher.status()).toMatchObject({ running: true });
    await harness.store.setup.create(harness.options);
    await harness.store.setup.transports([...harness.options.transports.keys()], harness.options.defaultTransport);
    for (let n = 5; n < 10; n += 1) await publish(n, n + 1);
    await until(() => ledger.complete);
    expect(ledger.verdict()).toEqual(CALM);
  });

  it('E13: tables of messages are dropped and made again, and the lease goes on: their numbers begin again, in order', async () => {
    const { dispatcher, hooks, ledger, publish, drop } = await relayOfLedger();
    const { lowWaterMark, heads } = (dispatcher.relays[0] as RelayLoops).relay.reader;
    // What is below is read no more. Where no snapshot tells it, the mark rises after a minute.
    if (lowWaterMark instanceof ProbedLowWaterMark)
      for (const [bucket, head] of heads) lowWaterMark.lower.marks.set(bucket, head);
    await until(() => [0, 1, 2, 3].some((bucket) => lowWaterMark.of(bucket) !== '0'));
    if (kind !== 'postgres') await until(() => isOfAnotherSecond(harness));
    await drop('ready', 'parked');
    // Three pauses of 37 ms or more: every 100 ms a read asks which table it reads.
    await until(() => hooks.of('error').filter(({ operation }) => operation === 'fetch').length >= 4);
    await harness.store.setup.create(harness.options);
    await publish(5, 15);
    await until(() => ledger.complete);
    expect(ledger.verdict()).toEqual(CALM);
  });
}
