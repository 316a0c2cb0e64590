import { randomUUID } from 'node:crypto';
import { DataSource } from 'typeorm';
import { OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { outboxTesting, overrideOutbox } from '../../lib/testing/index.js';
import { series } from '../support/databases.js';
import { describeOnEach } from '../support/services.js';
import { build, OrderPlaced, quiet, typeOrm, useApplications } from './support/app.js';

/** More than one page of a bucket, and more than one batch. */
const MANY = 2_000;
/** Milliseconds for them. */
const PATIENCE = 120_000;

describeOnEach([], 'U4: drain() and messages of others', (kind) => {
  const { applications, database } = useApplications(kind);

  const start = async (options: Partial<OutboxOptions> = {}, prefix = 'outbox_') => {
    const own = { setup: 'create' as const, prefix };
    const module = await applications.start(
      overrideOutbox(build([typeOrm(database), OutboxModule.forRoot({ ...quiet(), database: own, ...options })])),
    );
    const rows = async (table: 'ready' | 'parked'): Promise<string[]> => {
      const found: { id: string }[] = await module
        .get(DataSource)
        .query(`select id from ${prefix}${table} order by seq`);
      return found.map(({ id }) => id);
    };
    return { module, testing: outboxTesting(module), outbox: module.get(OutboxService), rows };
  };
  /** As another program writes them. */
  const write = (source: DataSource, table: string, key: string): Promise<unknown> => {
    const isPostgres = source.options.type === 'postgres';
    const numbers = series(kind, MANY);
    const name = isPostgres ? 'key' : '`key`';
    return source.query(
      isPostgres
        ? `insert into ${table} (id, topic, ${name}, type, bucket) select gen_random_uuid(), 't', '${key}', 'other', get_byte(sha256('${key}'), 0) * 256 + get_byte(sha256('${key}'), 1) & 31 from ${numbers}`
        : `insert into ${table} (id, topic, ${name}, type) select uuid(), 't', '${key}', 'other' from ${numbers}`,
    );
  };

  it('leaves what an earlier application left, says so, and takes it when told', async () => {
    const before = await start();
    const left = await before.outbox.enqueueOutsideTransaction([new OrderPlaced('1'), new OrderPlaced('2')]);
    const due = await before.outbox.enqueueOutsideTransaction({ type: 'late', key: null, payload: 1, delay: 1 });
    await applications.close();

    const { testing, outbox, rows } = await start();
    expect(await testing.drain()).toMatchObject({ published: 0, left: 3 });
    const own = await outbox.enqueueOutsideTransaction(new OrderPlaced('1', 5));
    expect(await testing.drain()).toMatchObject({ published: 1, left: 3 });
    expect(testing.published().map(({ id }) => id)).toEqual([own]);
    expect([await rows('ready'), await rows('parked')]).toEqual([left, [due]]);
    expect(() => testing.expectPublished('late')).toThrow(
      "No 'late' was published; there are: [ 'order.placed' ]. drain() left 3 messages that were not enqueued by this application; drain({ all: true }) takes such, too",
    );
    expect(await testing.drain({ all: true })).toMatchObject({ published: 3, left: 0 });
    testing.expectPublished('late');
    expect([await rows('ready'), await rows('parked')]).toEqual([[], []]);
  });

  it('gets past thousands of them, also of its own key', async () => {
    const { module, testing, outbox, rows } = await start();
    await write(module.get(DataSource), 'outbox_ready', 'k');
    const own = await outbox.enqueueOutsideTransaction([new OrderPlaced('k', 1), new OrderPlaced('k', 2)]);
    testing.clear();
    await write(module.get(DataSource), 'outbox_ready', 'k');
    expect(await testing.drain({ timeout: PATIENCE })).toMatchObject({ published: 2, left: 2 * MANY });
    expect(testing.published().map(({ id }) => id)).toEqual(own);
    expect(await rows('ready')).toHaveLength(2 * MANY);
    await testing.drain({ all: true, timeout: PATIENCE });
  });

  it('gives back what is due as it was, and tells no hook of the dead', async () => {
    const before = await start({ retry: { initial: 60_000, jitter: 'none' } }); // not due again in this drain
    before.testing.transport().fail({ when: ({ key }) => key === 'waits' });
    before.testing.transport().fail({ final: true, when: ({ key }) => key === 'dies' });
    await before.outbox.enqueueOutsideTransaction([new OrderPlaced('waits'), new OrderPlaced('dies')]);
    expect(await before.testing.drain()).toMatchObject({ retried: 1, dead: 1 });
    const now = kind === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)';
    await before.module.get(DataSource).query(`update outbox_parked set due_at = ${now} where state = 2`);
    const states = 'select state, attempts from outbox_parked order by state';
    await applications.close();

    const told: string[] = [];
    const { module, testing, outbox } = await start({
      deadLetter: ({ message }) => void told.push(message.key ?? ''),
    });
    const source = module.get(DataSource);
    const parked = await source.query<unknown[]>(states);
    expect(parked).toHaveLength(2);
    testing.transport().fail({ final: true, times: 1 });
    await outbox.enqueueOutsideTransaction(new OrderPlaced('own'));
    expect(await testing.drain()).toMatchObject({ published: 0, dead: 1 });
    expect(told).toEqual(['own']);
    await source.query(
      `delete from outbox_parked where state = 4 and ${source.options.type === 'postgres' ? 'key' : '`key`'} = 'own'`,
    );
    expect(await source.query<unknown[]>(states)).toEqual(parked);
    await testing.drain({ all: true });
    expect(testing.published().map(({ key }) => key)).toEqual(['waits']);
  });

  it('gets past them where rows are locked', async () => {
    const { module, testing, outbox, rows } = await start({ coordination: 'rowLock', ordering: 'none' }, 'locked_');
    await write(module.get(DataSource), 'locked_ready', randomUUID());
    const own = await outbox.enqueueOutsideTransaction(new OrderPlaced('k'));
    expect(await testing.drain({ timeout: PATIENCE })).toMatchObject({ published: 1, left: MANY });
    expect(testing.published().map(({ id }) => id)).toEqual([own]);
    expect(await rows('ready')).toHaveLength(MANY);
  });
});
