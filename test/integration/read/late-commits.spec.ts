import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { CALM, Ledger } from '../../support/ledger.js';
import { canStart, startOwnPostgres, type OwnDatabase } from '../../support/own-database.js';
import { createHarness, newMessage, ScriptedTransport, type Harness } from '../../support/relay.js';
import {
  describeOnMysqlFamily,
  describeUnlessMissing,
  describeWith,
  type DatabaseKind,
  DATABASES,
  dialectOf,
} from '../../support/services.js';
import { until } from '../../support/until.js';

const NAME = `outbox-${randomBytes(6).toString('hex')}`;
const TWO_PHASES = {
  postgres: { begin: ['begin'], prepare: [`prepare transaction '${NAME}'`], commit: `commit prepared '${NAME}'` },
  mysql: {
    begin: [`xa start '${NAME}'`],
    prepare: [`xa end '${NAME}'`, `xa prepare '${NAME}'`],
    commit: `xa commit '${NAME}'`,
  },
} as const;

/** Held for two seconds, while some hundred rows pass it; its server may hold it for days. */
function describeTwoPhases(kind: DatabaseKind): void {
  let harness: Harness | undefined;
  afterEach(() => harness?.close());

  it('A1: a transaction that was prepared, and commits after all around it was published, is published too', async () => {
    const { dataSource, store, count, enqueue, relay } = (harness = await createHarness(kind, {
      buckets: 2,
      pollInterval: 20,
    }));
    const ledger = new Ledger();
    const { dispatcher } = relay({ default: ledger.transport() });
    await dispatcher.start();
    const { begin, prepare, commit } = TWO_PHASES[dialectOf(kind)];
    const runner = dataSource.createQueryRunner();
    for (const sql of begin) await runner.query(sql);
    const names = Array.from({ length: 6 }, (_, n) => `late${n % 3}:${n}`);
    const rows = names.map((name) => newMessage({ key: name.split(':')[0] as string, payload: Buffer.from(name) }, 2));
    await store.writer.insert(transactionExecutor(runner), rows);
    for (const sql of prepare) await runner.query(sql);
    const end = Date.now() + 2_000;
    for (let n = 0; Date.now() < end; n += 1) {
      await enqueue(['a', 'b', 'c'].map((key) => ({ key, payload: Buffer.from(`${key}:${n}`) })));
      for (const key of ['a', 'b', 'c']) ledger.committed.add(`${key}:${n}`);
    }
    await until(() => ledger.complete);
    await until(async () => (await count('ready')) === 0);
    expect(ledger.verdict()).toEqual(CALM);
    await runner.query(commit);
    await runner.release();
    for (const name of names) ledger.committed.add(name);
    await until(() => ledger.complete);
    await until(async () => (await count('ready')) === 0);
    expect(ledger.verdict()).toEqual(CALM);
  });
}

describeOnMysqlFamily('two phases', describeTwoPhases);
describeUnlessMissing(canStart.postgres ? [] : ['postgres'], 'two phases on PostgreSQL', () => {
  const shared = process.env['OUTBOX_TEST_POSTGRES_URL'];
  let own: OwnDatabase;
  beforeAll(async () => {
    own = await startOwnPostgres({ max_prepared_transactions: '5' });
    process.env['OUTBOX_TEST_POSTGRES_URL'] = own.url;
  });
  afterAll(() => {
    process.env['OUTBOX_TEST_POSTGRES_URL'] = shared;
    own?.stop();
  });
  describeTwoPhases('postgres');
});

describe.each(DATABASES)('%s', (kind) => {
  describeWith(kind, 'many relays, few keys', () => {
    let harness: Harness | undefined;
    afterEach(() => harness?.close());

    // The scale is that of a test of seconds; the fleet of processes has 100,000 messages.
    it('A2: eight relays, five keys, publishes of random length: one of a key at a time, in order', async () => {
      harness = await createHarness(kind, { buckets: 8, pollInterval: 20 });
      const ledger = new Ledger();
      const sending = new Set<string | null>();
      let together = 0;
      const transport = (): ScriptedTransport => {
        const one = new ScriptedTransport();
        one.behave = async ({ key, payload }) => {
          if (sending.has(key)) together += 1;
          sending.add(key);
          await pause(Math.random() * 8);
          ledger.sightings.push(String(payload));
          sending.delete(key);
          return PUBLISHED;
        };
        return one;
      };
      const relays = Array.from({ length: 8 }, () => (harness as Harness).relay({ default: transport() }).dispatcher);
      // While they join, buckets change hands.
      const starting = Promise.all(relays.map(async (relay, n) => pause(n * 60).then(() => relay.start())));
      for (let n = 0; n < 100; n += 1) {
        const keys = ['a', 'b', 'c', 'd', 'e'];
        await harness.enqueue(keys.map((key) => ({ key, payload: Buffer.from(`${key}:${n}`) })));
        for (const key of keys) ledger.committed.add(`${key}:${n}`);
      }
      await starting;
      await until(() => ledger.complete, 120_000);
      await until(async () => (await (harness as Harness).count('ready')) === 0);
      expect([ledger.verdict(), together]).toEqual([CALM, 0]);
    });
  });
});
