import { DataSource } from 'typeorm';
import { OutboxCleaner, OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { FakeClock, outboxTesting, overrideOutbox } from '../../lib/testing/index.js';
import type { Clock } from '../../lib/time/clock.js';
import { describeOnEach, describeWith } from '../support/services.js';
import { build, OrderPlaced, quiet, signalsOnly, typeOrm, until, useApplications } from './support/app.js';

describeOnEach([], 'S0-14: advance() lets time pass for the messages of a test', (kind) => {
  const { applications, database } = useApplications(kind);

  const start = async (options: Partial<OutboxOptions> = {}, clock?: Clock) => {
    const module = await applications.start(
      overrideOutbox(
        build([typeOrm(database), OutboxModule.forRoot({ ...quiet(), ...options })]),
        clock === undefined ? {} : { clock },
      ),
    );
    const source = module.get(DataSource);
    const count = async (table: string): Promise<number> => {
      const [row]: { n: unknown }[] = await source.query(`select count(*) as n from outbox_${table}`);
      return Number(row?.n);
    };
    const testing = outboxTesting(module);
    const keys = (): (string | null)[] => testing.published().map(({ key }) => key);
    return { module, testing, outbox: module.get(OutboxService), count, keys };
  };
  const later = (key: string, delay: `${number}m`) => ({ type: 'later', key, payload: 1, delay });

  it('makes delayed messages due in the order of their times, and no sooner', async () => {
    const { testing, outbox } = await start();
    const ofKey = (payload: string, delay: `${number}m`) => ({ type: 'later', key: 'k', payload, delay });
    const published = (): unknown[] => testing.published().map(({ payload }) => payload);
    await outbox.enqueueOutsideTransaction(ofKey('third', '30m'));
    await outbox.enqueueOutsideTransaction([ofKey('second', '20m'), ofKey('first', '10m')]);
    await testing.advance('9m');
    expect(await testing.drain()).toMatchObject({ published: 0 });
    await testing.advance('1m');
    await testing.drain();
    expect(published()).toEqual(['first']);
    await testing.advance('20m');
    await testing.drain();
    expect(published()).toEqual(['first', 'second', 'third']);
  });

  it('makes a retry due, and what is blocked behind it keeps its place', async () => {
    const { testing, outbox, keys } = await start({ retry: { initial: '1h', max: '1h' } });
    testing.transport().fail({ times: 2 });
    await outbox.enqueueOutsideTransaction([new OrderPlaced('a', 1), new OrderPlaced('a', 2)]);
    expect(await testing.drain()).toMatchObject({ published: 0, retried: 1 });
    expect(await testing.drain()).toMatchObject({ published: 0, retried: 0 });
    await testing.advance('1h');
    expect(await testing.drain()).toMatchObject({ published: 0, retried: 1 });
    await testing.advance('1h');
    expect(await testing.drain()).toMatchObject({ published: 2 });
    expect(keys()).toEqual(['a', 'a']);
    expect(testing.published().map(({ payload }) => (payload as OrderPlaced).total)).toEqual([1, 2]);
  });

  it('brings retry.maxAge nearer, for a message that was not tried yet, too', async () => {
    const { testing, outbox } = await start({ retry: { initial: '1h', max: '1h', maxAge: '3h' } });
    testing.transport().fail({ times: 3 });
    await outbox.enqueueOutsideTransaction(new OrderPlaced('waits'));
    expect(await testing.drain()).toMatchObject({ retried: 1, dead: 0 });
    await testing.advance('2h');
    await outbox.enqueueOutsideTransaction(new OrderPlaced('young'));
    expect(await testing.drain()).toMatchObject({ retried: 2, dead: 0 });
    await testing.advance('2h');
    testing.transport().fail({ times: 2 });
    expect(await testing.drain()).toMatchObject({ retried: 1, dead: 1 });
    await outbox.enqueueOutsideTransaction(new OrderPlaced('never tried'));
    await testing.advance('3h');
    testing.transport().fail();
    expect(await testing.drain()).toMatchObject({ dead: 2 });
    await outbox.discard({ transport: 'default' });
  });

  it('makes what was published, has died or holds a dedup key old enough for the cleaner', async () => {
    const retention = { published: '1d', dead: '1d', dedup: '1d' } as const;
    const { module, testing, outbox, count } = await start({ onPublished: 'archive', retention });
    testing.transport().fail({ final: true, when: ({ key }) => key === 'dies' });
    await outbox.enqueueOutsideTransaction([new OrderPlaced('dies'), new OrderPlaced('goes')]);
    await outbox.enqueueOutsideTransaction(new OrderPlaced('once'), { dedupKey: 'k' });
    expect(await testing.drain()).toMatchObject({ published: 2, dead: 1 });
    const left = async () => [await count('archive'), await count('parked'), await count('dedup')];
    await testing.advance('23h');
    await module.get(OutboxCleaner).runOnce();
    expect(await left()).toEqual([2, 1, 1]);
    await testing.advance('1h');
    await module.get(OutboxCleaner).runOnce();
    expect(await left()).toEqual([0, 0, 0]);
  });

  it('leaves what others enqueued, what is not committed, and an empty outbox as they are', async () => {
    const before = await start();
    await before.testing.advance('1h');
    await before.outbox.enqueueOutsideTransaction(later('of others', '5m'));
    await applications.close();
    const { testing, outbox } = await start();
    await outbox.transaction(async () => {
      await outbox.enqueue(later('open', '5m'));
      await testing.advance('5m');
    });
    expect(await testing.drain({ all: true })).toMatchObject({ published: 0 });
    await testing.advance('5m');
    expect(await testing.drain({ all: true })).toMatchObject({ published: 1 });
    testing.expectPublished('later');
    await outbox.cancel({ transport: 'default' });
  });

  it('moves a FakeClock along, and wakes a relay that runs', async () => {
    const clock = new FakeClock();
    const faked = await start({}, clock);
    await faked.testing.advance(1_500);
    expect(clock.monotonic()).toBe(1_500);
    await applications.close();
    const { module, testing, outbox } = await start({ pollInterval: '1m' }, signalsOnly);
    await outbox.enqueueOutsideTransaction(later('a', '30m'));
    await testing.dispatcher.start();
    await testing.advance('30m');
    await until(() => testing.published().length === 1);
    await module.close();
  });
});

describeWith('postgres', 'S0-14: advance() lets time pass for the messages of a test', () => {
  const { applications, database } = useApplications();

  it('refuses what is no duration, with what to write', async () => {
    const module = await applications.start(overrideOutbox(build([typeOrm(database), OutboxModule.forRoot(quiet())])));
    const testing = outboxTesting(module);
    for (const wrong of ['5 minutes', -1, 0, '4000d', NaN])
      await expect(testing.advance(wrong as number)).rejects.toThrow(
        /^advance\(\): .*; must be '5m' or milliseconds, at most '3650d'\.$/,
      );
  });
});
