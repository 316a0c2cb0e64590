import { randomUUID } from 'node:crypto';
import { leave } from '../../../lib/testing/store-contract/harness.js';
import { breakLeases } from '../../../lib/admin/break-leases.js';
import { BucketLeases } from '../../../lib/relay/leases/bucket-leases.js';
import type { LeaseListener } from '../../../lib/relay/leases/lease-listener.js';
import { FakeClock } from '../../../lib/testing/fake-clock.js';
import { OpenTransaction } from '../../support/open-transactions.js';
import { createHarness, RecordedHooks, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';

/** Milliseconds; half of it is longer than a test takes. */
const LEASE = 240_000;
const STEP = LEASE / 16;
const HOUR = 3_600_000;
const BUCKETS = 4;
const HOLDER: LeaseListener = {
  gained: () => undefined,
  renewed: () => undefined,
  lost: () => undefined,
  drain: async (buckets) => buckets,
  participates: true,
};
const told = (lease: number) => `host pid 1 lease ${lease}ms`;

describe.each(DATABASES)('%s: leases that nobody will renew', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    let clock: FakeClock;
    let hooks: RecordedHooks;
    const members: BucketLeases[] = [];
    beforeEach(async () => {
      harness = await createHarness(kind, { buckets: BUCKETS });
      clock = new FakeClock();
      hooks = new RecordedHooks();
    });
    afterEach(async () => {
      await OpenTransaction.endAll();
      for (const leases of members.splice(0)) await leases.releaseAll();
      await harness.close();
    });

    /** A relay whose time is told by the test; the leases are those of the database. */
    function relay(leader = false): BucketLeases {
      const settings = { lease: LEASE, buckets: BUCKETS, leader, every: 1_000, need: 17_000 };
      const leases = new BucketLeases(harness.store.leases, clock, randomUUID(), told(LEASE), settings, {
        emit: (...event) => hooks.emit(...event),
      });
      leases.register(0, HOLDER);
      members.push(leases);
      return leases;
    }
    const size = (leases: BucketLeases): number => leases.of(0).size;
    /** What an instance leaves that died while its lease was so long, or the clock so far ahead. */
    async function crashed(lease: number, row: { ahead: number; told: number } | null): Promise<string> {
      const owner = randomUUID();
      await harness.store.leases.acquire({ owner, leaseMs: lease, transport: 0, limit: BUCKETS });
      if (row !== null) await harness.store.leases.beat({ owner, transports: [0], info: told(row.told) }, row.ahead);
      return owner;
    }
    /** As time passes: for the relays by their clock, for the database by what it has written. */
    async function rounds(ms: number, ...leases: BucketLeases[]): Promise<void> {
      const seconds = kind === 'postgres' ? `interval '${STEP / 1_000} s'` : `interval ${STEP / 1_000} second`;
      for (let passed = 0; passed < ms; passed += STEP) {
        for (const each of leases) await each.runOnce();
        await clock.advance(STEP);
        for (const table of ['leases', 'instances'])
          await harness.dataSource.query(`update outbox_${table} set expires_at = expires_at - ${seconds}`);
      }
    }

    it.each([
      ['nothing else of its owner is there', null],
      ['its owner’s heartbeat lies there, too', { ahead: 24 * HOUR, told: LEASE }],
    ] as const)('S1: one of a clock that was a day ahead is taken over after a lease: %s', async (_name, row) => {
      const owner = await crashed(24 * HOUR, row);
      const leases = relay();
      await rounds(LEASE / 2, leases);
      expect(size(leases)).toBe(0);
      await rounds(LEASE / 2 + 3 * STEP, leases);
      expect(size(leases)).toBe(BUCKETS);
      expect([...leases.of(0).values()].map(({ epoch }) => epoch)).toEqual(['2', '2', '2', '2']);
      expect(hooks.of('warning').map(({ text }) => text)).toEqual([
        expect.stringContaining(`4 leases of the instance ${owner} end later than any living instance promises`),
      ]);
      expect(hooks.of('leasesExpired')).toEqual([{ owner, buckets: BUCKETS }]);
    });

    it('S2: one of an instance with a longer lease is waited for while that one lives, and for a lease when it is gone', async () => {
      const owner = await crashed(HOUR, { ahead: HOUR, told: HOUR });
      const leases = relay();
      await rounds(LEASE * 2, leases);
      expect(size(leases)).toBe(0);
      await leave(harness.store, owner); // what its heartbeat says by running out
      await rounds(LEASE + 3 * STEP, leases);
      expect(size(leases)).toBe(BUCKETS);
    });

    it('S2: one of an instance that does not tell its lease is waited for', async () => {
      const owner = await crashed(HOUR, null);
      await harness.store.leases.beat({ owner, transports: [0], info: 'host pid 1' }, HOUR);
      const leases = relay();
      await rounds(LEASE * 2, leases);
      expect(size(leases)).toBe(0);
    });

    /** A clock that is set back by an hour leaves the leases of everybody an hour ahead, until they are renewed. */
    it('S1: one that its owner renews is not, however far ahead it is', async () => {
      const owner = await crashed(24 * HOUR, { ahead: 24 * HOUR, told: LEASE });
      const leases = relay();
      for (let turn = 0; turn < 6; turn += 1) {
        await rounds(LEASE / 4, leases);
        await harness.store.leases.renew(owner, 24 * HOUR);
        await harness.store.leases.beat({ owner, transports: [0], info: told(LEASE) }, 24 * HOUR);
      }
      expect(size(leases)).toBe(0);
      expect(leases.living.list).toHaveLength(2);
      expect(await harness.store.leases.renew(owner, LEASE)).toHaveLength(BUCKETS);
    });

    it('S3: an operator breaks one by its owner, its transport or its bucket, and nothing else', async () => {
      const owner = await crashed(LEASE * 20, null);
      const other = randomUUID();
      const [second] = await harness.store.setup
        .transports(['default', 'second'], 'default')
        .then((ids) => [ids.get('second') as number]);
      await harness.store.leases.acquire({ owner: other, leaseMs: HOUR, transport: second as number, limit: BUCKETS });
      expect(await breakLeases(harness.store.leases, { owner: 'nobody' }, undefined)).toEqual({
        broken: 0,
        owners: [],
        left: 0,
      });
      expect(await breakLeases(harness.store.leases, { buckets: [1] }, 0)).toEqual({
        broken: 1,
        owners: [owner],
        left: 0,
      });
      const leases = relay();
      await leases.runOnce();
      expect([...leases.of(0).keys()]).toEqual([1]);
      expect(await breakLeases(harness.store.leases, { owner }, undefined)).toEqual({
        broken: 3,
        owners: [owner],
        left: 0,
      });
      await leases.runOnce();
      expect(size(leases)).toBe(BUCKETS);
      expect(await harness.store.leases.renew(other, LEASE)).toHaveLength(BUCKETS);
    });

    it('S3: one under which somebody writes stays', async () => {
      const owner = await crashed(HOUR, null);
      const writer = await OpenTransaction.begin(harness);
      await writer.query(
        `select 1 from outbox_leases where transport = 0 and bucket = 2 ${kind === 'postgres' ? 'for share' : 'lock in share mode'}`,
      );
      expect(await breakLeases(harness.store.leases, { owner }, undefined)).toEqual({
        broken: 3,
        owners: [owner],
        left: 1,
      });
      await writer.commit();
    });

    /** What makes its lease void for others makes it void for itself. */
    it('S2: an instance with a long lease says each few minutes that it lives, and stops believing when it cannot', async () => {
      const settings = { lease: HOUR, buckets: BUCKETS, leader: false, every: 1_000, need: 17_000 };
      const leases = new BucketLeases(harness.store.leases, clock, randomUUID(), told(HOUR), settings);
      leases.register(0, HOLDER);
      members.push(leases);
      await leases.runOnce();
      const { beat } = harness.store.leases;
      let beats = 0;
      harness.store.leases.beat = (...given) => (beats++, beat.apply(harness.store.leases, given));
      for (let pass = 0; pass < 10; pass += 1) {
        await clock.advance(100_000);
        await leases.runOnce();
      }
      expect(beats).toBeGreaterThanOrEqual(10);
      expect(size(leases)).toBe(BUCKETS);
      harness.store.leases.beat = () => Promise.reject(new Error('the database is away'));
      for (let pass = 0; pass < 3; pass += 1) {
        await clock.advance(100_000);
        await leases.runOnce().catch(() => undefined);
      }
      await clock.advance(1);
      expect([...leases.of(0).keys()].filter((bucket) => leases.usable(0, bucket, 0))).toEqual([]);
      harness.store.leases.beat = beat;
    });
  });
});
