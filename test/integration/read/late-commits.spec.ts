import { randomBytes } from 'node:crypto';
import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import { CALM, Ledger } from '../../support/ledger.js';
import { canStart, startOwnPostgres, type OwnDatabase } from '../../support/own-database.js';
import { createHarness, newMessage, type Harness } from '../../support/relay.js';
import { describeOnMysqlFamily, describeUnlessMissing, type DatabaseKind, dialectOf } from '../../support/services.js';
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
