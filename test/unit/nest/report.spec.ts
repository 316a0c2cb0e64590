import type { OutboxHealth } from '../../../lib/index.js';
import { reportOf } from '../../../lib/nest/report.js';
import type { TransportStats } from '../../../lib/store/admin-store.js';
import { FakeClock } from '../../../lib/testing/index.js';
import { definition } from '../../support/enqueue.js';

interface Asked {
  readonly resolve: (stats: TransportStats[]) => void;
  readonly reject: (error: Error) => void;
}

/** A store that answers when the test says so. */
function silent() {
  const clock = new FakeClock();
  const asked: Asked[] = [];
  const store = {
    stats: () => new Promise((resolve, reject) => void asked.push({ resolve, reject })),
  };
  const leases = { living: async () => ({ instances: [], now: 0 }) };
  const { stats, health } = reportOf({
    store: { admin: store, leases } as never,
    dispatcher: { status: () => ({ running: true, storeDownFor: null, transports: [] }) as never, relays: [] },
    options: {
      relay: true,
      lease: 30_000,
      transports: new Map([['main', definition()]]),
      publishTimeout: 10_000,
      buckets: 32,
      ordering: 'key',
      coordination: 'buckets',
    },
    transportIds: new Map([['main', 0]]),
    clock,
  });
  const ask = (times: number): Promise<OutboxHealth>[] => Array.from({ length: times }, () => health());
  return { clock, asked, stats, ask };
}
const LATE = {
  status: 'degraded',
  reasons: [{ code: 'counts_late', text: 'The database has not counted the messages within 2s.' }],
};
const DOWN = { status: 'down', reasons: [{ text: 'The database does not answer: gone.' }] };

describe('health of a database that says nothing', () => {
  it('tells so after two seconds, however many ask, and asks once', async () => {
    const { clock, asked, ask } = silent();
    const answers = Promise.all(ask(20));
    await clock.advance(1_999);
    expect(await Promise.race([answers, 'none yet'])).toBe('none yet');
    await clock.advance(1);
    expect(await answers).toEqual(Array.from({ length: 20 }, () => expect.objectContaining(LATE)));
    const later = Promise.all(ask(2));
    await clock.advance(2_000);
    expect(await later).toMatchObject([LATE, LATE]);
    expect([asked.length, clock.pending]).toEqual([1, 0]);
  });

  it.each([
    ['answers', (late: Asked) => late.resolve([])],
    ['fails', (late: Asked) => late.reject(new Error('gone'))],
  ])('asks anew when what came too late %s, and breaks nothing by it', async (_, settle) => {
    const { clock, asked, ask } = silent();
    const [first] = ask(1);
    await clock.advance(2_000);
    expect(await first).toMatchObject(LATE);
    const unhandled: unknown[] = [];
    const listen = (error: unknown): void => void unhandled.push(error);
    process.on('unhandledRejection', listen);
    settle(asked[0] as Asked);
    await new Promise((resolve) => void setImmediate(resolve));
    process.off('unhandledRejection', listen);
    expect(unhandled).toEqual([]);
    await clock.advance(1_000);
    const [second] = ask(1);
    asked[1]?.resolve([]);
    expect(await second).toMatchObject({ status: 'up', reasons: [] });
    expect([asked.length, clock.pending]).toEqual([2, 0]);
  });

  it('S9: gives an answer for a second to all who ask, and a failure to nobody else', async () => {
    const { clock, asked, ask } = silent();
    const first = Promise.all(ask(2));
    asked[0]?.resolve([]);
    expect(await first).toMatchObject([{ status: 'up' }, { status: 'up' }]);
    await clock.advance(999);
    expect(await Promise.all(ask(2))).toMatchObject([{ status: 'up' }, { status: 'up' }]);
    expect(asked).toHaveLength(1);
    await clock.advance(1);
    const [later] = ask(1);
    asked[1]?.reject(new Error('gone'));
    expect(await later).toMatchObject(DOWN);
    const [again] = ask(1);
    asked[2]?.resolve([]);
    expect(await again).toMatchObject({ status: 'up' });
  });

  it('is down while the answer before was a failure', async () => {
    const { clock, asked, ask } = silent();
    const [first] = ask(1);
    asked[0]?.reject(new Error('gone'));
    expect(await first).toMatchObject(DOWN);
    const [second] = ask(1);
    await clock.advance(2_000);
    expect(await second).toMatchObject(DOWN);
  });

  it('tells all who asked what it is told in time', async () => {
    const { clock, asked, ask } = silent();
    const answers = Promise.all(ask(3));
    await clock.advance(1_900);
    asked[0]?.reject(new Error('refused'));
    const reasons = [{ code: 'database_silent', text: 'The database does not answer: refused.' }];
    expect(await answers).toEqual(Array.from({ length: 3 }, () => expect.objectContaining({ reasons })));
    expect(asked).toHaveLength(1);
  });

  it('leaves stats() as long as it takes', async () => {
    const { clock, asked, stats } = silent();
    const answers = [stats(), stats()];
    await clock.advance(60_000);
    for (const one of asked) one.resolve([]);
    expect(await Promise.all(answers)).toMatchObject([{ transports: {} }, { transports: {} }]);
    expect(asked).toHaveLength(2);
  });
});
