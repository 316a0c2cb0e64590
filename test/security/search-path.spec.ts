import { TypeOrmModule } from '@nestjs/typeorm';
import { Test, type TestingModule } from '@nestjs/testing';
import type { DataSource } from 'typeorm';
import {
  OutboxAdmin,
  OutboxCleaner,
  OutboxDispatcher,
  OutboxDoctor,
  OutboxModule,
  OutboxService,
  OutboxUnlocker,
  type OutboxOptions,
} from '../../lib/index.js';
import { RecordingTransport } from '../../lib/testing/index.js';
import { outboxSql } from '../../lib/data-layers/typeorm/index.js';
import { inCatalog } from '../../lib/store/postgres/schema/catalog.js';
import { calledNames, HostileDatabases, sqlTexts, type HostileDatabase } from '../support/hostile-functions.js';
import { describeWith } from '../support/services.js';

/** Written like a call, and never looked up; of `unnest` the one with a single array is, and qualified as such. */
const GRAMMAR = new Set(['extract', 'overlay', 'substring', 'unnest']);
/** They have nothing but bodies of functions in which names are those of PostgreSQL: `set search_path`. */
const PINNED = new Set(['lib/store/postgres/schema/view.ts', 'lib/store/postgres/schema/strict.ts']);

describeWith('postgres', 'functions, aggregates and operators that somebody else put on the search path', () => {
  const databases = new HostileDatabases();
  let database: HostileDatabase;
  let admin: DataSource;
  const open: { close(): Promise<void> }[] = [];
  beforeAll(() => databases.start());
  beforeEach(async () => {
    database = await databases.next();
    ({ admin } = database);
  });
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
    await database.drop();
  });
  afterAll(() => databases.stop());

  /** All that an operator asks of an outbox in which one message is dead. */
  async function operate(app: TestingModule): Promise<void> {
    const [outbox, actions] = [app.get(OutboxService), app.get(OutboxAdmin)];
    await outbox.release('c');
    await outbox.cancel({ key: 'nobody' });
    expect((await outbox.requeue({ type: 'dead' })).done).toBe(1);
    await app.get(OutboxDispatcher).drain();
    const [dead] = (await actions.find({ state: 'dead' })).messages;
    const id = dead?.id as string;
    expect((await actions.show(id, { payload: true })).transports).toHaveLength(1);
    expect((await actions.explain(id)).reasons).toMatchObject([{ transport: 'default' }]);
    const [group] = (await actions.failures()).groups;
    await actions.buckets();
    expect(await actions.requeue({ group: group as NonNullable<typeof group> }, { dryRun: true })).toMatchObject({
      count: 1,
    });
    expect(await actions.requeue({ group: group as NonNullable<typeof group> })).toMatchObject({ done: 1 });
    await app.get(OutboxDispatcher).drain();
    expect(await actions.release('c')).toMatchObject({ released: 1 });
    const scheduled = { type: 'far', key: 'far', payload: 1 };
    const [one, two] = [1, 2].map((n) =>
      outbox.enqueueOutsideTransaction(scheduled, { delay: '1h', dedupKey: `far ${n}` }),
    ) as [Promise<string>, Promise<string>];
    expect((await outbox.cancel({ ids: [await one] })).changed).toEqual([await one]);
    await two;
    expect(await actions.cancel({ type: 'far', youngerThan: '1h' })).toMatchObject({ done: 1 });
    await outbox.enqueueOutsideTransaction({ type: 'ready', payload: 1 }); // of which no relay may know yet
    await outbox.cancel({ type: 'ready' });
    await app.get(OutboxDispatcher).drain();
    expect(await actions.discard({ type: 'dead', key: 'c' })).toMatchObject({ done: 1 });
    expect((await actions.audit()).entries).not.toEqual([]);
    await app.get(OutboxDoctor).diagnose();
    await app.get(OutboxCleaner).runOnce({ before: new Date(), includeDead: true });
    await admin.query(`update outbox_leases set owner = 'gone', expires_at = clock_timestamp() + interval '1 day'`);
    expect(await outbox.breakLeases({ owner: 'gone' })).toMatchObject({ owners: ['gone'] });
  }

  it.each([
    ['key', true],
    ['strict', true],
    ['key', false], // behind a transaction pooler no session is ours
  ] as const)('I1: never run: ordering %s, sessions of ours %s', async (ordering, isOurs) => {
    // As another migration tool makes them: SQL as text, without a schema.
    await admin.query(outboxSql('postgres', { ordering }).up);
    await database.invite();
    const transport = new RecordingTransport();
    transport.fail({ when: ({ type, attempts }) => type === 'again' && attempts === 0 });
    transport.fail({ final: true, when: ({ type }) => type === 'dead' });
    const options: OutboxOptions = {
      transports: { default: transport },
      ordering,
      relay: 'manual',
      logLevel: 'silent',
      onPublished: 'archive',
      retry: { initial: 1, max: 1, errorHistory: 3 },
      database: { setup: 'check', pooler: !isOurs },
    };
    const imports = [TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }), OutboxModule.forRoot(options)];
    const app = await (
      await Test.createTestingModule({ imports })
        .setLogger(false as never)
        .compile()
    ).init();
    open.push(app);
    const outbox = app.get(OutboxService);
    await outbox.transaction(async () => {
      await outbox.enqueue({ type: 'one', key: 'a', payload: { n: 1 }, headers: { h: 'v' } }, { dedupKey: 'd' });
      await outbox.enqueue([1, 2, 3].map((n) => ({ type: 'many', key: `k${n}`, payload: { n } })));
      await outbox.enqueue({ type: 'again', key: 'b', payload: 'x'.repeat(70_000) });
      await outbox.enqueue({ type: 'dead', key: 'c', payload: {} });
      await outbox.enqueue({ type: 'later', key: 'a', payload: {} }, { delay: 1 });
    });
    await admin.query(
      `insert into outbox_messages (topic, key, payload) values ('plain', 'p', '{}'), ('plain', null, 'x')`,
    );
    await app.get(OutboxDispatcher).drain();
    await app.get(OutboxUnlocker).runOnce();
    expect((await outbox.stats()).total).toMatchObject({ dead: 1 });
    await outbox.health();
    await operate(app);
    await admin.query('select id, state, payload, errors from outbox_messages'); // a superuser looks
    await admin.query(outboxSql('postgres', { ordering }).up); // and migrates
    expect(transport.published.map(({ type }) => type).sort()).toEqual(
      ['again', 'later', 'many', 'many', 'many', 'one', 'plain', 'plain'].sort(),
    );
    expect(await database.strangerRan()).toBe(false);
  });

  it('I1: what SQL of ours calls by a bare name is in the list of what is qualified, or in a body with a path of its own', async () => {
    const names = new Set(await calledNames(admin));
    const bare = sqlTexts().flatMap(({ file, text }) =>
      [...text.matchAll(/(?<![\w."$@])[a-z_][a-z0-9_]*(?=\()/g)].map(([name]) => ({ file, name })),
    );
    expect(bare.length).toBeGreaterThan(100);
    const open = bare.filter(
      ({ name }) => names.has(name) && inCatalog(`${name}(`) === `${name}(` && !GRAMMAR.has(name),
    );
    const pinned = open.filter(({ file }) => PINNED.has(file));
    expect(open.filter((each) => !pinned.includes(each))).toEqual([]);
  });
});
