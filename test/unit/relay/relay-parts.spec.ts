import type { OutboxMessage } from '../../../lib/index.js';
import type { Roles } from '../../../lib/store/outbox-store.js';
import { systemClock } from '../../../lib/time/clock.js';
import { BlockedKeys } from '../../../lib/relay/order/blocked-keys.js';
import type { TransportRelayDependencies } from '../../../lib/relay/transport-parts.js';
import { Circuit } from '../../../lib/relay/publish/circuit.js';
import { DeadLetters } from '../../../lib/relay/settle/dead-letters.js';
import type { Death } from '../../../lib/store/parked-store.js';
import type { Cleaning } from '../../../lib/store/admin-store.js';
import { OutboxCleaner } from '../../../lib/clean/cleaner.js';
import { stored } from '../../support/transport-relay.js';
import { RecordedHooks } from '../../support/scripted.js';
import { until } from '../../support/until.js';

describe('the circuit', () => {
  it('opens at the first failure, and another failure asks for no second probe', () => {
    const circuit = new Circuit();
    expect(circuit.allows).toBe('all');
    expect(circuit.fail('a', 10, 0)).toBe(250);
    expect(circuit.fail('b', 11, 0)).toBeUndefined();
    expect([circuit.allows, circuit.lastError, circuit.openedAt]).toEqual(['none', 'b', 10]);
  });

  it('a late success proves nothing while it is open; one while probing closes it', () => {
    const circuit = new Circuit();
    circuit.fail('a', 10, 0);
    expect(circuit.succeed(20)).toBeUndefined();
    expect(circuit.state).toBe('open');
    circuit.probe();
    expect(circuit.allows).toBe('one');
    expect(circuit.succeed(30)).toBe(20);
    expect([circuit.allows, circuit.lastError]).toEqual(['all', undefined]);
  });

  it('waits longer after each probe that fails, up to the cap, and counts from the first failure', () => {
    const circuit = new Circuit(500, 4_000);
    const delays = [circuit.fail('a', 10, 1)];
    for (let i = 0; i < 5; i += 1) {
      circuit.probe();
      delays.push(circuit.fail('a', 100 + i, 1));
    }
    expect(delays).toEqual([500, 1_000, 2_000, 4_000, 4_000, 4_000]);
    expect(circuit.openedAt).toBe(10);
    circuit.probe();
    circuit.succeed(200);
    expect(circuit.fail('a', 300, 1)).toBe(500);
  });

  it('a broker that asks to wait is waited for until it says so, or fails', () => {
    const circuit = new Circuit();
    circuit.block('alarm', 10);
    expect(circuit.allows).toBe('none');
    expect(circuit.unblock(25)).toBe(15);
    expect(circuit.unblock(26)).toBeUndefined();
    circuit.block('alarm', 30);
    expect(circuit.fail('gone', 40, 0)).toBe(250);
    expect(circuit.openFor(50)).toBe(20); // since it asked to wait
    circuit.block('alarm', 50);
    expect(circuit.unblock(60)).toBeUndefined();
    expect(circuit.state).toBe('open');
    circuit.probe();
    circuit.probe();
    expect(circuit.state).toBe('probing');
  });

  it('C4: a confirm of what was sent before does not end that wait', () => {
    const circuit = new Circuit();
    circuit.block('alarm', 10);
    expect(circuit.succeed(20)).toBeUndefined();
    expect([circuit.allows, circuit.lastError]).toEqual(['none', 'alarm']);
    expect(circuit.unblock(25)).toBe(15);
  });
});

describe('blocked keys', () => {
  const keysOf = (limit?: number) => new BlockedKeys({} as TransportRelayDependencies, () => true, limit);

  it('says when there were more than fit', () => {
    const keys = keysOf(2);
    for (const key of ['a', 'b']) keys.add(0, key);
    keys.add(0, 'a');
    expect([keys.size, keys.overflow]).toEqual([2, false]);
    keys.add(1, 'c');
    expect([keys.size, keys.overflow, keys.has(1, 'c')]).toEqual([2, true, false]);
  });

  it('comes round to every key in turn', () => {
    const keys = keysOf();
    for (let i = 0; i < 37; i += 1) keys.add(i % 5, `k${i}`);
    const seen = new Set<string>();
    for (let i = 0; i < 8; i += 1) for (const { key } of keys.next(5)) seen.add(key);
    expect(seen.size).toBe(37);
    expect(keys.next(1_000)).toHaveLength(37);
    for (let bucket = 0; bucket < 5; bucket += 1) keys.forget(bucket);
    expect([keys.size, keys.next(5)]).toEqual([0, []]);
  });
});

describe('dead letters', () => {
  function lettersOf(count: number) {
    const all = Array.from({ length: count }, (_, i) => ({
      parkedId: String(i),
      message: stored(),
      transport: 0,
      error: null,
      died: String(i),
      diedAt: new Date(),
    }));
    const announced = new Set<string>();
    const pages: number[] = [];
    const parked = {
      unannouncedDead: async (_: readonly number[], limit: number, after?: Death) => {
        const behind = all.slice(after === undefined ? 0 : Number(after.parkedId) + 1);
        const page = behind.filter(({ parkedId }) => !announced.has(parkedId)).slice(0, limit);
        pages.push(page.length);
        return page;
      },
      markAnnounced: async (deaths: readonly Death[]) => deaths.forEach(({ parkedId }) => announced.add(parkedId)),
    };
    const ready = { readPayloads: async (_: number, __: readonly OutboxMessage[]): Promise<string[]> => [] };
    const store = { parked, ready };
    return { all, announced, pages, store: store as typeof store & Roles<'ready' | 'parked'> };
  }

  it('a hook that never ends for one of them hears of the others all the same', async () => {
    const { all, store } = lettersOf(5);
    const told: string[] = [];
    const hook = ({ message }: { message: OutboxMessage }) => {
      if (message === all[0]?.message) return new Promise<void>(() => undefined);
      told.push(message.id);
      return undefined;
    };
    const letters = new DeadLetters(store, hook, new Map([[0, 'default']]), new RecordedHooks(), systemClock, 20);
    await letters.runOnce();
    expect(told).toEqual([]);
    await letters.runOnce();
    expect(told).toEqual(all.slice(1).map(({ message }) => message.id));
  });

  it('a hook that refuses thousands hears of the next ones too, a page in memory, and is left alone in between', async () => {
    const { all, announced, pages, store } = lettersOf(4_350);
    const bad = new Set(all.slice(0, 4_250).map(({ message }) => message));
    let calls = 0;
    const hook = ({ message }: { message: OutboxMessage }) => {
      calls += 1;
      if (bad.has(message)) throw new Error('no');
    };
    const letters = new DeadLetters(store, hook, new Map([[0, 'default']]), new RecordedHooks(), systemClock, 1_000);
    for (let round = 0; round < 3; round += 1) {
      calls = 0;
      while (await letters.runOnce());
      expect(calls).toBeLessThanOrEqual(2_100);
    }
    expect(announced.size).toBe(100);
    expect(Math.max(...pages)).toBe(100);
    bad.clear();
    for (let round = 0; round < 3; round += 1) while (await letters.runOnce());
    expect(announced.size).toBe(all.length);
  });

  it('one whose payload cannot be read keeps nobody from being told, nor told once', async () => {
    const { all, announced, store } = lettersOf(3);
    for (const { message } of all) message.unread = 100_000;
    const unreadable = new Set([all[1]?.message]);
    store.ready.readPayloads = async (_, [message]) => {
      if (unreadable.has(message as OutboxMessage)) throw new Error('too large');
      return ['{}'];
    };
    const told: string[] = [];
    const hooks = new RecordedHooks();
    const hook = ({ message }: { message: OutboxMessage }) => void told.push(message.id);
    const letters = new DeadLetters(store, hook, new Map([[0, 'default']]), hooks, systemClock, 1_000);
    await letters.runOnce();
    expect([...announced]).toEqual(['0', '2']);
    expect(hooks.of('error')).toMatchObject([{ operation: 'deadLetter' }]);
    unreadable.clear();
    await letters.runOnce();
    expect(told).toEqual([0, 2, 1].map((index) => all[index]?.message.id));
  });

  it('one for which the hook hung once is told while it hangs for another', async () => {
    const { all, announced, store } = lettersOf(3);
    let hanging = all.slice(0, 2).map(({ message }) => message);
    const hook = ({ message }: { message: OutboxMessage }) =>
      hanging.includes(message) ? new Promise<void>(() => undefined) : undefined;
    const letters = new DeadLetters(store, hook, new Map([[0, 'default']]), new RecordedHooks(), systemClock, 20);
    for (let i = 0; i < 3; i += 1) await letters.runOnce();
    expect(announced).toEqual(new Set(['2']));
    hanging = hanging.slice(0, 1);
    // The call that hung is given up after 30 times its time.
    await until(async () => (await letters.runOnce(), announced.has('1')));
    expect(announced).toEqual(new Set(['1', '2']));
  });
});

describe('the cleaner', () => {
  it('comes past dedup keys that stay, but in one pass not past all of them', async () => {
    let looked = 0;
    const store = {
      clean: async (what: Cleaning, _: number, limit: number) =>
        what === 'dedup' ? { removed: (looked += limit) === 2_000 ? 1 : 0, looked: limit } : { removed: 0, looked: 0 },
    };
    const retention = { published: 1, dead: 1, dedup: 1, audit: 1, every: 1, pause: 0 };
    const cleaner = new OutboxCleaner({ cleaner: store }, new RecordedHooks(), retention, false);
    expect(await cleaner.runOnce()).toEqual({ published: 0, dead: 0, dedup: 1 });
    expect(looked).toBeGreaterThanOrEqual(100_000);
    expect(looked).toBeLessThan(110_000);
  });
});
