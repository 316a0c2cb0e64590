import type { PublishResult } from '../../../lib/index.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES, dialectOf } from '../../support/services.js';
import { until } from '../../support/until.js';
import { systemClock } from '../../../lib/time/clock.js';

/** By which rows are held back: stands still unless the test moves it. What waits for a poll goes on. */
class StandingTime {
  passed = 0;
  readonly clock = { ...systemClock, monotonic: () => this.passed };
}

const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

for (const kind of DATABASES)
  describeWith(kind, `with row locks, what ${kind} does not let into the parked table`, () => {
    let harness: Harness;
    afterEach(() => harness?.close());

    async function refusing(condition: string, retry = {}) {
      const rowLock = { ordering: 'none', coordination: 'rowLock', pollInterval: 50 } as const;
      harness = await createHarness(kind, { ...rowLock, retry: { initial: 10, max: 10, ...retry } });
      await harness.dataSource.query(`alter table outbox_parked add constraint theirs check (${condition})`);
      const transport = new ScriptedTransport();
      transport.behave = ({ topic }) => (topic === 'orders' ? { ok: true } : rejected());
      const time = new StandingTime();
      return { transport, time, ...harness.relay({ default: transport }, {}, { clock: time.clock }) };
    }
    const attempts = (transport: ScriptedTransport, id: string | undefined) =>
      transport.attempted.filter((message) => message.id === id).length;

    it('undoes nothing that was published with it, and is held back for longer and longer', async () => {
      const { transport, time, dispatcher, hooks } = await refusing(`topic <> 'refused'`);
      const ids = await harness.enqueue([{}, {}, { topic: 'refused' }, {}, {}]);
      const [refused] = ids.splice(2, 1);
      await dispatcher.start();
      await until(async () => (await harness.count('ready')) === 1);
      expect(transport.published.map(({ id }) => id).sort()).toEqual([...ids].sort());
      await hooks.until('error');
      time.passed += 1_000;
      await hooks.until('error', 2);
      time.passed += 2_000;
      const again = await hooks.until('error', 3);
      expect(again).toMatchObject({ operation: 'park', retryIn: 4_000 });
      expect(hooks.of('error').map(({ retryIn }) => retryIn)).toEqual([1_000, 2_000, 4_000]);
      expect(attempts(transport, refused)).toBe(3);
      expect(transport.published).toHaveLength(4);
      expect([hooks.of('retried'), hooks.of('dead')]).toEqual([[], []]);
      expect(await harness.count('parked')).toBe(0);

      // Behind it nothing waits.
      const [next] = await harness.enqueue([{}]);
      await transport.until(() => transport.published.some(({ id }) => id === next));
      expect(attempts(transport, refused)).toBe(3);
    });

    it('also when it is parked already, and must be parked again', async () => {
      const { transport, dispatcher, hooks } = await refusing(`topic <> 'refused' or attempts < 2`);
      const [refused] = await harness.enqueue([{ topic: 'refused' }]);
      await dispatcher.start();
      await hooks.until('error');
      expect(hooks.of('error')).toMatchObject([{ operation: 'park', retryIn: 1_000 }]);
      expect(hooks.of('retried')).toMatchObject([{ id: refused, attempts: 1 }]);
      const [next] = await harness.enqueue([{}]);
      await transport.until(() => transport.published.some(({ id }) => id === next));
      expect(attempts(transport, refused)).toBe(2);
      await until(async () => (await harness.count('ready')) === 0);
      expect(await harness.count('parked')).toBe(1);
    });
  });

for (const kind of DATABASES)
  describeWith(kind, `with row locks, what was published and ${kind} does not let out of its table`, () => {
    const REFUSED = 'refused';
    let harness: Harness;
    afterEach(() => harness?.close());

    function relay() {
      const transport = new ScriptedTransport();
      const attempts = (ids: readonly string[]) =>
        ids.map((id) => transport.attempted.filter((message) => message.id === id).length);
      const time = new StandingTime();
      return { transport, attempts, time, ...harness.relay({ default: transport }, {}, { clock: time.clock }) };
    }

    it.each([
      ['ready', null],
      ['parked', 0],
    ] as const)('into the archive, from %s: only that waits, and is not published again', async (_from, delay) => {
      const rowLock = { ordering: 'none', coordination: 'rowLock', pollInterval: 50 } as const;
      harness = await createHarness(kind, { ...rowLock, onPublished: 'archive' });
      await harness.dataSource.query(`alter table outbox_archive add constraint theirs check (topic <> '${REFUSED}')`);
      const { dispatcher, hooks, attempts, time } = relay();
      const ids = await harness.enqueue([{ delay }, { delay }, { delay, topic: REFUSED }, { delay }]);
      const refused = ids[2] as string;
      await dispatcher.start();
      await hooks.until('error');
      time.passed += 1_000;
      await hooks.until('error', 2);
      expect(hooks.of('error')).toMatchObject([
        { operation: 'settle', retryIn: 1_000 },
        { operation: 'settle', retryIn: 2_000 },
      ]);
      expect(await harness.count('archive')).toBe(3);
      const told = (): readonly string[] => hooks.of('published').flatMap((event) => event.ids);
      expect([...told()].sort()).toEqual(ids.filter((id) => id !== refused).sort());

      await harness.dataSource.query('alter table outbox_archive drop constraint theirs');
      time.passed += 2_000;
      await until(async () => (await harness.count('archive')) === 4);
      await until(() => told().includes(refused));
      expect(attempts(ids)).toEqual([1, 1, 1, 1]);
    });

    it('that may not be deleted: the others are published once more at most', async () => {
      harness = await createHarness(kind, { ordering: 'none', coordination: 'rowLock', pollInterval: 50 });
      for (const text of REFUSE_DELETION[dialectOf(kind)]) await harness.dataSource.query(text);
      const { dispatcher, hooks, attempts, time } = relay();
      const [refused, ...others] = (await harness.enqueue([{ topic: REFUSED }, {}, {}])) as [string, ...string[]];
      await dispatcher.start();
      await until(async () => (await harness.count('ready')) === 1);
      await until(() => hooks.of('error').some(({ retryIn }) => retryIn === 1_000));
      time.passed += 1_000;
      await until(() => hooks.of('error').some(({ retryIn }) => retryIn === 2_000));
      expect(attempts([refused, ...others])).toEqual([2, 2, 2]);
      expect(hooks.of('published').flatMap(({ ids }) => ids)).toHaveLength(2);
    });
  });

const REFUSE_DELETION = {
  postgres: [
    `create function theirs() returns trigger language plpgsql as
      $$ begin if old.topic = 'refused' then raise exception 'not this one'; end if; return old; end $$`,
    'create trigger theirs before delete on outbox_ready for each row execute function theirs()',
  ],
  mysql: [
    `create trigger theirs before delete on outbox_ready for each row
      if old.topic = 'refused' then signal sqlstate '45000' set message_text = 'not this one'; end if`,
  ],
};
