import type { ChildProcess } from 'node:child_process';
import { describeOnFewer } from '../support/services.js';
import { until } from '../support/until.js';
import { heard, NO_WRITERS, readLedger, startRelay, useFleet, type FleetSettings } from './fleet.js';

const KEYS = 24;
const EACH = 25;
const MESSAGES = KEYS * EACH;
/** Milliseconds: those that stand still must outlast it. */
const LEASE = 15_000;

describeOnFewer([], 'relay processes whose time is not the others’', (kind) => {
  const fleet = useFleet(kind, { buckets: 8, lease: LEASE, publishTimeout: '7s' });
  let harness: typeof fleet.harness;
  let settings: FleetSettings;
  let relays: ChildProcess[] = [];
  beforeEach(() => {
    const { ledger } = fleet;
    ({ harness } = fleet);
    const relayOptions = { buckets: 8, publishTimeout: '7s' as const, batchSize: 20 };
    settings = { ...NO_WRITERS, url: harness.database.url, ledger, lease: LEASE, pace: 20, relayOptions };
  });

  const ledger = () => readLedger(settings.ledger);
  const left = async (): Promise<number> => (await harness.count('ready')) + (await harness.count('parked'));

  /** All of them own buckets, and have published some of the backlog. All but the first get `others` as well. */
  async function atWork(count: number, others: Partial<FleetSettings> = {}): Promise<void> {
    const each = Array.from({ length: count }, (_, n) => (n === 0 ? settings : { ...settings, ...others }));
    relays = await Promise.all(each.map(startRelay));
    fleet.children.push(...relays);
    const owners = (): Promise<unknown[]> =>
      harness.dataSource.query(`select owner from outbox_leases where owner is not null group by owner
        having count(*) <= ${Math.ceil(8 / count)}`);
    await until(async () => (await owners()).length === count, 60_000);
    for (let n = 1; n <= EACH; n += 1)
      await harness.enqueue(
        Array.from({ length: KEYS }, (_, k) => ({ key: `k${k}`, payload: Buffer.from(String(n)) })),
      );
    await until(() => ledger().publishers === count, 60_000);
  }

  it('B1: frozen past their lease in the middle of a batch, they publish nothing and change nothing when they wake up', async () => {
    // Within a message, each by itself: a signal from outside may also hit it between its last look at the time and its write.
    await atWork(4, { freezeAt: 10 });
    const [, ...zombies] = relays;
    await until(() => ledger().distinct === MESSAGES, LEASE + 60_000);
    await until(async () => (await left()) === 0, 60_000);
    const { lines } = ledger();
    const alive = zombies.map((zombie) => heard(zombie, 'leasesAcquired'));
    for (const zombie of zombies) zombie.kill('SIGCONT');
    // Each was at a message that its transport refuses for good on waking up, and had more in hand. It goes on as a new owner.
    await Promise.all(alive);
    expect(ledger()).toEqual({ lines, distinct: MESSAGES, ghosts: 0, outOfOrder: 0, publishers: 4 });
    expect(await left()).toBe(0);
    expect(lines - MESSAGES).toBeLessThanOrEqual(zombies.length * 20 * (4 + 2));
  });

  it('B3: clocks that are set 90 s back and an hour ahead while they run: everything once or, of what was in flight, twice', async () => {
    await atWork(2);
    const [one, other] = relays as [ChildProcess, ChildProcess];
    one.send({ wrongBy: -90_000 });
    other.send({ wrongBy: 3_600_000 });
    await until(() => ledger().lines > MESSAGES / 2, 60_000);
    one.send({ wrongBy: 3_600_000 });
    other.send({ wrongBy: 0 });
    await until(async () => (await left()) === 0, 60_000);
    const { lines, ...rest } = ledger();
    expect(rest).toEqual({ distinct: MESSAGES, ghosts: 0, outOfOrder: 0, publishers: 2 });
    expect(lines - MESSAGES).toBeLessThanOrEqual(2 * 20 * (4 + 2));
  });
});
