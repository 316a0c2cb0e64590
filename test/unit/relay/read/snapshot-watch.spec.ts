import { SnapshotWatch } from '../../../../lib/relay/read/snapshot-watch.js';
import { healthOf } from '../../../../lib/observe/health.js';
import type { HeldSnapshot, HeldSnapshotReport } from '../../../../lib/store/diagnose/diagnose-store.js';
import { FakeClock } from '../../../../lib/testing/fake-clock.js';
import { RecordedHooks } from '../../../support/scripted.js';

const DUMP: HeldSnapshot = {
  server: 'PostgreSQL',
  end: 'select pg_terminate_backend(4711);',
  holder: 'session 4711',
  details: ['pg_dump', 'idle in transaction'],
  transaction: '4711 812',
  age: 840_000,
  dead: 1_200_000,
};
const NAMED =
  'PostgreSQL has kept dead rows of outbox_ready for 14m: session 4711 (pg_dump, idle in transaction) holds a snapshot';

describe('SnapshotWatch', () => {
  let clock: FakeClock;
  let hooks: RecordedHooks;
  let watch: SnapshotWatch;
  let looks: number;
  let answer: () => Promise<HeldSnapshotReport>;

  beforeEach(() => {
    clock = new FakeClock();
    hooks = new RecordedHooks();
    looks = 0;
    answer = async () => DUMP;
    const ask = (): Promise<never> => {
      looks += 1;
      return answer() as Promise<never>;
    };
    watch = new SnapshotWatch({ ask }, clock, hooks, 'outbox_ready');
  });
  /** A read that took so long, once a second. */
  const reads = async (ms: number, seconds: number): Promise<void> => {
    for (let i = 0; i < seconds; i += 1) {
      watch.took(ms);
      await clock.advance(1_000);
    }
  };
  const heard = (): string[] => hooks.events.map(({ name }) => name);

  it('Q2: looks at nothing while reading costs what it costs everywhere', async () => {
    await reads(5, 600);
    watch.took(200, 1_000);
    expect(looks).toBe(0);
    expect(watch.status()).toBeNull();
  });

  it('Q2: asks nobody where the way to the server is long', async () => {
    await reads(45, 600);
    expect(looks).toBe(0);
  });

  it('Q2: names who holds a snapshot, once, as soon as reads feel it, and asks each 15 s at most', async () => {
    await reads(5, 10);
    watch.walked(120);
    await clock.advance(0);
    expect(watch.status()).toEqual({ text: NAMED, isSlow: false });
    await reads(5, 60);
    expect(looks).toBe(4);
    expect(heard()).toEqual(['snapshotHeld']);
    const told = hooks.of('snapshotHeld')[0];
    expect(told).toEqual({
      server: 'PostgreSQL',
      table: 'outbox_ready',
      holder: 'session 4711 (pg_dump, idle in transaction)',
      heldFor: 840_000,
    });
  });

  it('Q2: is a reason of health only where messages are late for it', async () => {
    const health = () =>
      healthOf({
        mode: true,
        relay: { running: true, storeDownFor: null, transports: [], heldSnapshot: watch.status() },
        transports: new Map(),
        stats: { transports: {} } as never,
      });
    watch.walked(120);
    await clock.advance(0);
    expect(health()).toMatchObject({ status: 'up', reasons: [], relay: { heldSnapshot: NAMED } });
    watch.took(8_000); // until it was cancelled
    expect(health()).toMatchObject({ status: 'degraded', reasons: [{ text: `${NAMED}.` }] });
    await reads(5, 60);
    expect(health().status).toBe('up');
  });

  it('Q2: says that it is over, also when nothing is felt any more', async () => {
    watch.walked(200);
    await clock.advance(0);
    answer = async () => undefined;
    await reads(5, 300);
    expect(heard()).toEqual(['snapshotHeld', 'snapshotReleased']);
    expect(watch.status()).toBeNull();
    const asked = looks;
    await reads(5, 300);
    expect(looks).toBe(asked);
  });

  it.each([
    ['a transaction of a moment', { ...DUMP, age: 3_000 }],
    ['dead rows that the next vacuum removes', { ...DUMP, dead: 500 }],
  ])('Q2: is no news: %s', async (_, holder) => {
    answer = async () => holder;
    watch.walked(10_000);
    await clock.advance(0);
    expect(watch.status()).toBeNull();
    expect(heard()).toEqual([]);
  });

  it('Q2: counts from when it was first seen where its age is hidden', async () => {
    answer = async () => ({ ...DUMP, details: [], age: undefined, dead: undefined });
    watch.walked(10_000);
    await clock.advance(0);
    expect(watch.status()).toBeNull();
    await reads(5, 31);
    expect(watch.status()?.text).toBe(
      'PostgreSQL has kept dead rows of outbox_ready for 31s: session 4711 holds a snapshot',
    );
  });

  it('Q2: says which right is missing, only where reading is slow', async () => {
    answer = async () => ({ needs: 'PROCESS' });
    watch.walked(200);
    await clock.advance(0);
    expect(watch.status()).toBeNull();
    watch.walked(10_000);
    expect(watch.status()).toEqual({ text: expect.stringContaining('grant PROCESS') as string, isSlow: true });
  });

  it('Q2: a look that fails changes nothing, and its next one comes', async () => {
    answer = () => Promise.reject(new Error('canceling statement due to statement timeout'));
    watch.walked(10_000);
    await clock.advance(0);
    expect(watch.status()).toBeNull();
    answer = async () => DUMP;
    await reads(5, 16);
    expect(watch.status()?.text).toContain('session 4711');
  });

  it('Q2: what an application is called hides no secret and moves no cursor', async () => {
    answer = async () => ({ ...DUMP, details: ['postgres://u:hunter2@h/d\u001b[2J'] });
    watch.walked(200);
    await clock.advance(0);
    expect(watch.status()?.text).not.toMatch(/hunter2|\u001b/);
  });
});
