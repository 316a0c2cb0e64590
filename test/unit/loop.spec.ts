import { Loop } from '../../lib/dispatch/loop.js';
import { FakeClock } from '../../lib/testing/fake-clock.js';

/** A loop whose runs end when the test says so. */
function controlled({ pause = 1_000, retry = 5_000 } = {}) {
  const clock = new FakeClock();
  const open: { end(delay?: number): Promise<void>; fail(): Promise<void> }[] = [];
  const state = { begun: 0, running: 0, most: 0, errors: [] as unknown[] };
  const settle = () => clock.advance(0);
  const loop = new Loop(
    clock,
    () => {
      state.begun += 1;
      state.most = Math.max(state.most, (state.running += 1));
      return new Promise((resolve, reject) => {
        open.push({
          end: (delay = pause) => ((state.running -= 1), resolve(delay), settle()),
          fail: () => ((state.running -= 1), reject(new Error('no')), settle()),
        });
      });
    },
    (error) => (state.errors.push(error), retry),
  );
  return { clock, loop, state, next: () => open.shift()!, settle };
}

describe('a loop', () => {
  it('runs at once, then after each pause, and never beside itself', async () => {
    const { clock, loop, state, next, settle } = controlled();
    loop.start();
    await settle();
    expect(state.begun).toBe(1);
    await clock.advance(10_000); // a run that takes longer than the pause
    expect(state.begun).toBe(1);
    await next().end();
    await clock.advance(999);
    expect(state.begun).toBe(1);
    await clock.advance(1);
    expect(state.begun).toBe(2);
    await next().end(0);
    expect(state.begun).toBe(3);
    expect(state.most).toBe(1);
  });

  it('answers a nudge at once, and any number of them during a run with one more run', async () => {
    const { clock, loop, state, next, settle } = controlled();
    loop.start();
    await settle();
    for (let i = 0; i < 5; i += 1) loop.nudge();
    await next().end();
    expect(state.begun).toBe(2);
    await next().end();
    expect(state.begun).toBe(2);
    loop.nudge();
    expect(state.begun).toBe(3);
    await next().end();
    expect(clock.pending).toBe(1);
  });

  it('takes an error as a delay, and goes on', async () => {
    const { clock, loop, state, next, settle } = controlled();
    loop.start();
    await settle();
    await next().fail();
    expect(state.errors).toHaveLength(1);
    await clock.advance(4_999);
    expect(state.begun).toBe(1);
    await clock.advance(1);
    expect(state.begun).toBe(2);
  });

  it('runs earlier when something falls due earlier, never later', async () => {
    const { clock, loop, state, next, settle } = controlled();
    loop.start();
    await settle();
    loop.within(300); // while it runs
    await next().end();
    loop.within(500);
    await clock.advance(299);
    expect(state.begun).toBe(1);
    await clock.advance(1);
    expect(state.begun).toBe(2);
    await next().end();
  });

  it('stops when the run in hand is over, without a timer, and starts again', async () => {
    const { clock, loop, state, next, settle } = controlled();
    loop.start();
    await settle();
    let stopped = false;
    const stop = loop.stop().then(() => (stopped = true));
    loop.nudge();
    await settle();
    expect(stopped).toBe(false);
    await next().end();
    await stop;
    expect([state.begun, clock.pending]).toEqual([1, 0]);
    loop.start();
    await settle();
    expect(state.begun).toBe(2);
  });

  it('survives starts, stops and nudges in any order', async () => {
    const clock = new FakeClock();
    let running = 0;
    let most = 0;
    let random = 7;
    const chance = (n: number): number => (random = (random * 48_271) % 2_147_483_647) % n;
    const loop = new Loop(
      clock,
      async () => {
        most = Math.max(most, (running += 1));
        for (let i = chance(4); i > 0; i -= 1) await Promise.resolve();
        running -= 1;
        if (chance(5) === 0) throw new Error('now and then');
        return chance(3);
      },
      () => 1,
    );
    const stops: Promise<void>[] = [];
    for (let i = 0; i < 3_000; i += 1) {
      const what = chance(5);
      if (what === 0) loop.start();
      else if (what === 1) stops.push(loop.stop());
      else if (what === 2) loop.nudge();
      else if (what === 3) loop.within(chance(5));
      else await clock.advance(chance(3));
    }
    await Promise.all([...stops, loop.stop(), clock.advance(10)]);
    expect([running, most, clock.pending]).toEqual([0, 1, 0]);
  });
});
