import { setTimeout as pause } from 'node:timers/promises';
import type { PublishResult, OutboxStore } from '../../lib/index.js';
import type { Clock } from '../../lib/time/clock.js';
import { systemClock } from '../../lib/time/clock.js';
import { PUBLISHED } from '../../lib/transports/transport.js';
import { gate } from '../support/transport-relay.js';
import { CALM, Ledger, Writers } from '../support/ledger.js';
import { createHarness, ScriptedTransport, wrapped, type Harness } from '../support/relay.js';
import { until } from '../support/until.js';
import type { DatabaseKind } from '../support/services.js';

const text = (value: string | number) => Buffer.from(String(value));
/** No publish that the test holds back is given up meanwhile. */
const PATIENT = { lease: '30m', publishTimeout: '10m' } as const;
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

/** What is done to a relay, and what it does to others; each test some seconds. */
export function describeFaults(kind: DatabaseKind): void {
  let harness: Harness;
  let writers: Writers | undefined;
  afterEach(async () => {
    await writers?.close();
    writers = undefined;
    await harness?.close();
  });

  const sql = (postgres: string, mariadb: string): string => (kind === 'postgres' ? postgres : mariadb);

  it('B2: a frozen relay cannot change what the new owner has; that it published counts', async () => {
    harness = await createHarness(kind, {
      ...PATIENT,
      buckets: 4,
      shutdownTimeout: '1s',
      retry: { initial: '1h', max: '1h' },
    });
    // It stands still: its clock too, and its heartbeat never gets an answer.
    let frozenAt: { monotonic: number; wall: number } | undefined;
    const clock: Clock = {
      monotonic: () => frozenAt?.monotonic ?? systemClock.monotonic(),
      wall: () => frozenAt?.wall ?? systemClock.wall(),
      after: systemClock.after,
    };
    const never = new Promise<never>(() => undefined);
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        renew: (owner, ms) => (frozenAt === undefined ? store.leases.renew(owner, ms) : never),
        beat: (instance, ms) => (frozenAt === undefined ? store.leases.beat(instance, ms) : never),
      });
    const zombie = new ScriptedTransport();
    const answers = new Map([
      ['failed', gate<PublishResult>()],
      ['dead', gate<PublishResult>()],
      ['ok', gate<PublishResult>()],
    ]);
    zombie.behave = ({ payload }) => (answers.get(String(payload)) as { opened: Promise<PublishResult> }).opened;
    const names = [...answers.keys()];
    await harness.enqueue(names.map((name) => ({ key: name, payload: text(name) })));
    const maxAttempts = { ...harness.options.retry, maxAttempts: 1 };
    const a = harness.relay({ default: zombie }, { retry: maxAttempts }, { clock, wrapStore });
    await a.dispatcher.start();
    await until(() => zombie.attempted.length === 3);
    frozenAt = { monotonic: systemClock.monotonic(), wall: systemClock.wall() };
    // Its time is over, as far as the database goes.
    for (const table of ['leases', 'instances']) {
      const past = sql(`now() - interval '1 s'`, 'utc_timestamp(6) - interval 1 second');
      await harness.dataSource.query(`update outbox_${table} set expires_at = ${past}`);
    }

    const owner = new ScriptedTransport();
    owner.behave = ({ payload }) => (String(payload) === 'ok' ? never : rejected());
    const b = harness.relay({ default: owner });
    await b.dispatcher.start();
    await b.hooks.until('retried', 2);
    answers.get('failed')?.open(rejected());
    answers.get('dead')?.open({ ok: false, blame: 'message', final: true, error: new Error('never') });
    answers.get('ok')?.open(PUBLISHED);
    await until(async () => (await harness.count('ready')) === 0);
    await until(() => (a.dispatcher.relays[0]?.status().buffered ?? 1) === 0);
    const rows = (await harness.dataSource.query(`select state, attempts from outbox_messages`)) as {
      state: string;
      attempts: number;
    }[];
    expect(rows.map(({ state, attempts }) => [state, Number(attempts)])).toEqual([
      ['waiting', 1],
      ['waiting', 1],
    ]);
  });

  it('a settle that overtakes the answer to a read: no message goes out twice', async () => {
    harness = await createHarness(kind, { buckets: 4, pollInterval: 10 });
    const late = async <T>(work: Promise<T>): Promise<T> => {
      const result = await work;
      await pause(8); // the answer takes longer than a publish and its settle
      return result;
    };
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        fetch: (request) => late(store.ready.fetch(request)),
        sweep: (...args) => late(store.ready.sweep(...args)),
        readPlaces: (...args) => late(store.ready.readPlaces(...args)),
      });
    const ledger = new Ledger();
    writers = await Writers.open(harness, ledger);
    const { dispatcher } = harness.relay({ default: ledger.transport() }, {}, { wrapStore });
    await dispatcher.start();
    for (let w = 0; w < 8; w += 1) writers.start(`w${w}`, { batch: 2, hold: 0.2, holdMs: 15 });
    await until(() => ledger.committed.size > 1_000, 120_000);
    await writers.end();
    await until(() => ledger.complete, 120_000);
    expect(ledger.verdict()).toEqual(CALM);
  });

  it('answers that got lost: what was taken, acquired or freed without our hearing of it is not stuck', async () => {
    harness = await createHarness(kind, { buckets: 4, lease: '12s', publishTimeout: '4s', pollInterval: 50 });
    const losing = new Set(['take', 'acquire']);
    const lost = (): never => {
      throw Object.assign(new Error('connection lost'), { code: 'ECONNRESET' });
    };
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        take: async (request) => {
          const result = await store.parked.take(request);
          return losing.delete('take') ? lost() : result;
        },
        acquire: async (request) => {
          const leases = await store.leases.acquire(request);
          // Of the first answer only a part arrives, as if two statements had been sent.
          return losing.delete('acquire') ? leases.slice(1) : leases;
        },
      });
    const ledger = new Ledger();
    const transport = ledger.transport();
    const publish = transport.behave;
    let failures = 1;
    transport.behave = (message) =>
      String(message.payload) === 'k:0' && failures-- > 0 ? rejected() : publish(message);
    const keys = ['k', ...Array.from({ length: 20 }, (_, i) => `key${i}`)];
    await harness.enqueue(keys.map((key) => ({ key, payload: text(`${key}:0`) })));
    await harness.enqueue([{ key: 'k', payload: text('k:1') }]);
    for (const key of keys) ledger.committed.add(`${key}:0`);
    ledger.committed.add('k:1');
    const { dispatcher } = harness.relay({ default: transport }, {}, { wrapStore });
    await dispatcher.start();
    await until(() => ledger.complete);
    expect(losing.size).toBe(0);
    expect(ledger.verdict()).toEqual(CALM);
  });

  it('A2: relays that join and leave all the time under load: nothing lost, nothing twice, no order broken', async () => {
    harness = await createHarness(kind, { pollInterval: 50 });
    const ledger = new Ledger();
    writers = await Writers.open(harness, ledger, 6);
    for (let w = 0; w < 6; w += 1) writers.start(`w${w}`, { pauseMs: 2 });
    const alive = [harness.relay({ default: ledger.transport() })];
    await alive[0]?.dispatcher.start();
    const everybody = [...alive];
    for (let round = 0; round < 25; round += 1) {
      if (alive.length < 2 || (alive.length < 4 && round % 3 !== 0)) {
        const relay = harness.relay({ default: ledger.transport() });
        alive.push(relay);
        everybody.push(relay);
        await relay.dispatcher.start();
      } else await alive.shift()?.dispatcher.stop();
      for (const { dispatcher } of alive) dispatcher.lookAtLeases();
      const before = ledger.sightings.length;
      await until(() => ledger.sightings.length >= before + 20); // under load
    }
    await writers.end();
    await until(() => ledger.complete, 120_000);
    await until(async () => (await harness.count('ready')) === 0);
    expect(ledger.committed.size).toBeGreaterThan(100);
    expect(ledger.verdict()).toEqual(CALM);
    expect(everybody.flatMap(({ hooks }) => hooks.of('leasesLost'))).toEqual([]);
  });
}
