import { AsyncLocalStorage } from 'node:async_hooks';
import { Loop } from '../../../lib/time/loop.js';
import { systemClock } from '../../../lib/time/clock.js';
import { FakeClock } from '../../../lib/testing/index.js';
import { gate, turn } from '../../support/transport-relay.js';
import { until } from '../../support/until.js';

describe('a loop', () => {
  it('runs at once, then after each delay', async () => {
    const clock = new FakeClock();
    const at: number[] = [];
    const loop = new Loop(
      clock,
      async () => (at.push(clock.monotonic()), 100),
      () => 0,
    );
    loop.start();
    await clock.advance(350);
    expect(at).toEqual([0, 100, 200, 300]);
    await loop.stop();
    await clock.advance(1_000);
    expect(at).toHaveLength(4);
    expect(clock.pending).toBe(0);
  });

  it('K1: no run, and no timer, is in the context of who starts or nudges it', async () => {
    const request = new AsyncLocalStorage<string>();
    const seen: unknown[] = [];
    const loop = new Loop(
      systemClock,
      async () => (seen.push(request.getStore()), seen.length < 3 ? 1 : Infinity),
      () => 0,
    );
    request.run('A', () => loop.start(Infinity));
    request.run('A', () => loop.nudge());
    await until(() => seen.length === 3);
    request.run('B', () => loop.within(1));
    await until(() => seen.length >= 4); // a timer may come a little early: then one more follows
    await loop.stop();
    const { length } = seen;
    request.run('C', () => systemClock.after(0, () => seen.push(request.getStore())));
    await until(() => seen.length > length);
    expect(seen).toEqual(Array(seen.length).fill(undefined));
  });

  it('B15: a timer that fires a moment early takes no later wish with it', async () => {
    const clock = new FakeClock();
    let early = 0.5;
    const after = (ms: number, action: () => void): (() => void) => {
      const cancel = clock.after(ms - early, action);
      early = 0;
      return cancel;
    };
    const at: number[] = [];
    const loop = new Loop(
      { monotonic: () => clock.monotonic(), wall: () => clock.wall(), after },
      async () => {
        if (at.push(clock.monotonic()) === 1) loop.within(34);
        return 60_000;
      },
      () => 0,
    );
    loop.start(Infinity);
    loop.within(400);
    await clock.advance(1_000);
    expect(at).toEqual([399.5, 433.5]);
    await loop.stop();
  });

  it('a nudge runs it now; one during a run makes exactly one more follow', async () => {
    const clock = new FakeClock();
    let runs = 0;
    let running = gate();
    const loop = new Loop(
      clock,
      async () => ((runs += 1), await running.opened, 1_000),
      () => 0,
    );
    loop.start();
    await clock.advance(0);
    for (let i = 0; i < 5; i += 1) loop.nudge();
    expect(runs).toBe(1);
    const first = running;
    running = gate();
    first.open();
    await turn();
    expect(runs).toBe(2);
    running.open();
    await turn();
    expect(runs).toBe(2);
    loop.nudge();
    await turn();
    expect(runs).toBe(3);
    await loop.stop();
  });

  it('a run that nudges its loop before it waits for anything is followed by one more, and has none beside it', async () => {
    let [running, most, runs] = [0, 0, 0];
    const loop = new Loop(
      new FakeClock(),
      async () => {
        most = Math.max(most, (running += 1));
        if ((runs += 1) === 1) loop.nudge();
        await turn();
        running -= 1;
        return Infinity;
      },
      () => 0,
    );
    loop.start(Infinity);
    await loop.runNow();
    await loop.stop();
    expect([runs, most]).toEqual([2, 1]);
  });

  it('runs only when it is nudged where the delay is infinite', async () => {
    const clock = new FakeClock();
    let runs = 0;
    const loop = new Loop(
      clock,
      () => ((runs += 1), runs === 1 ? Promise.resolve(Infinity) : Promise.reject(new Error('no'))),
      () => Infinity,
    );
    loop.start(Infinity);
    for (const expected of [0, 1, 2]) {
      expect(clock.pending).toBe(0); // a timer that cannot wait for ever would fire after 24 days
      expect(runs).toBe(expected);
      loop.nudge();
      await turn();
    }
    loop.within(100);
    await clock.advance(100);
    expect(runs).toBe(4);
    await loop.stop();
  });

  it('an error is a delay', async () => {
    const clock = new FakeClock();
    let runs = 0;
    const loop = new Loop(
      clock,
      () => ((runs += 1), Promise.reject(new Error('no'))),
      () => 500,
    );
    loop.start();
    await clock.advance(499);
    expect(runs).toBe(1);
    await clock.advance(1);
    expect(runs).toBe(2);
    await loop.stop();
  });

  it('`within` brings a run forward and never puts one off; asked for during a run, it holds after it', async () => {
    const clock = new FakeClock();
    const at: number[] = [];
    const loop = new Loop(
      clock,
      async () => {
        at.push(clock.monotonic());
        if (at.length === 1) loop.within(30);
        return 1_000;
      },
      () => 0,
    );
    loop.start();
    await clock.advance(20);
    loop.within(500);
    await clock.advance(10);
    expect(at).toEqual([0, 30]);
    loop.within(100);
    loop.within(5_000);
    loop.nudge();
    await turn();
    await clock.advance(100);
    expect(at).toEqual([0, 30, 30, 130]);
    await loop.stop();
  });

  it('`runNow` waits for a whole run that began after it was called', async () => {
    const clock = new FakeClock();
    let begun = 0;
    let running = gate();
    const loop = new Loop(
      clock,
      async () => ((begun += 1), await running.opened, 1_000),
      () => 0,
    );
    loop.start();
    await clock.advance(0);
    let ended = false;
    const now = loop.runNow().then(() => (ended = true));
    const first = running;
    running = gate();
    first.open();
    await turn();
    expect([begun, ended]).toEqual([2, false]);
    running.open();
    await now;
    expect(begun).toBe(2);
    await loop.stop();
  });

  it('`runNow` ends when the loop stops, and survives a stop and a start in the middle', async () => {
    const clock = new FakeClock();
    let running = gate();
    const loop = new Loop(
      clock,
      async () => (await running.opened, 1_000),
      () => 0,
    );
    loop.start();
    await clock.advance(0);
    const first = loop.runNow();
    const stopped = loop.stop();
    loop.start();
    running.open();
    await stopped;
    await first;
    running = gate();
    loop.nudge();
    const second = loop.runNow();
    const end = loop.stop();
    running.open();
    await Promise.all([second, end]);
    expect(loop.active).toBeUndefined();
  });

  it.each(Array.from({ length: 10 }, (_, i) => i))(
    'starts, stops and is nudged 50 times without a run that overlaps or outlives it (%i)',
    async (seed) => {
      let open = 0;
      let most = 0;
      const loop = new Loop(
        systemClock,
        async () => {
          most = Math.max(most, (open += 1));
          await new Promise((resolve) => setImmediate(resolve));
          open -= 1;
          return (seed + most) % 3;
        },
        () => 1,
      );
      for (let i = 0; i < 50; i += 1) {
        loop.start();
        if ((i + seed) % 2 === 0) loop.nudge();
        if ((i + seed) % 3 === 0) loop.within(1);
        if ((i + seed) % 5 === 0) await new Promise((resolve) => setImmediate(resolve));
        if ((i + seed) % 7 === 0) void loop.stop();
        else if (i % 2 === 1) await loop.stop();
      }
      await loop.stop();
      expect(open).toBe(0);
      expect(most).toBe(1);
      expect(loop.active).toBeUndefined();
      expect(loop.cancelTimer).toBeUndefined();
    },
  );
});
