import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { Acquired, HeldLease, Lease, LiveInstance } from '../../store/lease-store.js';
import { eventually, leave, type OwnedTransport, type StoreRun } from './harness.js';

const MINUTE = 60_000;

export function describeLeases(run: StoreRun): void {
  const { describe, it } = run.runner;
  type Fields = { limit?: number; only?: number[]; leaseMs?: number };
  const acquire = async (owned: OwnedTransport, owner: string, fields: Fields = {}): Promise<Lease[]> =>
    (await owned.leasedTo(owner, fields)).map(({ transport, bucket, epoch }) => ({ transport, bucket, epoch }));
  /** Bucket 5 in the hands of somebody whose lease has run out. */
  const expired = async (owned: OwnedTransport, owner = randomUUID()): Promise<Lease> =>
    ((await acquire(owned, owner, { only: [5], leaseMs: 1 })) as [Lease])[0];

  describe('leases', () => {
    it('gives each bucket to one owner, up to the limit, of those asked for', async () => {
      const owned = await run.owned({ leased: false });
      const [a, b] = [randomUUID(), randomUUID()];
      assert.equal((await acquire(owned, a, { limit: 3 })).length, 3);
      assert.deepEqual((await acquire(owned, b, { only: [0, 5, 6], limit: 10 })).map(bucketOf), [5, 6]);
      assert.equal((await acquire(owned, b)).length, owned.allBuckets.length - 5);
      assert.deepEqual(await acquire(owned, a), []);
      assert.deepEqual(await acquire(owned, a, { limit: 0 }), []);
    });

    it('counts an epoch with every acquisition, also by the same owner, and never with a renewal', async () => {
      const owned = await run.owned({ leased: false });
      const owner = randomUUID();
      const [first] = (await acquire(owned, owner, { limit: 1 })) as [Lease];
      assert.deepEqual(await run.store.leases.renew(owner, MINUTE), [first]);
      await run.store.leases.giveBack(owner, [first]);
      assert.deepEqual(await run.store.leases.renew(owner, MINUTE), []);
      const [second] = (await acquire(owned, owner, { only: [first.bucket] })) as [Lease];
      assert.equal(BigInt(second.epoch), BigInt(first.epoch) + 1n);
      await run.store.leases.giveBack(owner, [first]); // an epoch of before: not its lease any more
      assert.deepEqual(await run.store.leases.renew(owner, MINUTE), [second]);
    });

    it('is lost when it expires: not renewed, free for others', async () => {
      const owned = await run.owned({ leased: false });
      const [late, next] = [randomUUID(), randomUUID()];
      const old = await acquire(owned, late, { leaseMs: 1, limit: 2 });
      assert.equal(old.length, 2);
      const taken: Lease[] = [];
      await eventually('takeover', async () => {
        // Each lease ends at its own time: a look between the two ends finds one of them.
        taken.push(...(await acquire(owned, next, { only: old.map(bucketOf) })));
        return taken.length >= 2 ? true : undefined;
      });
      assert.deepEqual(
        byBucket(taken),
        byBucket(old).map((lease) => ({ ...lease, epoch: String(BigInt(lease.epoch) + 1n) })),
      );
      assert.deepEqual(await run.store.leases.renew(late, MINUTE), []);
      await run.store.leases.giveBack(late, old);
      assert.deepEqual(byBucket(await run.store.leases.renew(next, MINUTE)), byBucket(taken));
    });

    it('S5: is cleared by the unlocker once expired, never before', async () => {
      const owned = await run.owned({ leased: false });
      const [dead, alive] = [randomUUID(), randomUUID()];
      const [expired] = (await acquire(owned, dead, { leaseMs: 1, limit: 1 })) as [Lease];
      const held = await acquire(owned, alive, { limit: 1, only: [3] });
      const cleared = await eventually('expiry', async () => {
        const all = (await run.store.leases.expire()).filter(({ transport }) => transport === owned.transport);
        return all.length > 0 ? all : undefined;
      });
      assert.deepEqual(cleared, [{ ...expired, owner: dead }]);
      assert.deepEqual(await run.store.leases.renew(alive, MINUTE), held);
      assert.deepEqual(
        (await run.store.leases.expire()).filter(({ transport }) => transport === owned.transport),
        [],
      );
    });
  });

  describe('leases that somebody holds', () => {
    const held = async (owned: OwnedTransport): Promise<HeldLease[]> =>
      (await run.other.leases.heldLeases()).filter(({ transport }) => transport === owned.transport);

    it('are told with their owner and their end, until they are given back', async () => {
      const owned = await run.owned({ leased: false });
      const owner = randomUUID();
      const [lease] = (await acquire(owned, owner, { only: [5], leaseMs: MINUTE })) as [Lease];
      const [seen, ...more] = await held(owned);
      assert.equal(more.length, 0);
      const { remaining, until, ...rest } = seen as HeldLease;
      assert.deepEqual(rest, { ...lease, owner });
      assert.ok(remaining > MINUTE / 2 && remaining <= MINUTE, `${remaining} ms remain`);
      assert.equal((await held(owned))[0]?.until, until);
      await run.store.leases.renew(owner, MINUTE);
      assert.notEqual((await held(owned))[0]?.until, until);
      await run.store.leases.giveBack(owner, [lease]);
      assert.deepEqual(await held(owned), []);
    });

    it('are ended as they were seen, and then taken as what a crash left', async () => {
      const owned = await run.owned({ leased: false });
      const [gone, next] = [randomUUID(), randomUUID()];
      const leases = await acquire(owned, gone, { limit: 3 });
      const before = await held(owned);
      await run.store.leases.renew(gone, 2 * MINUTE);
      assert.deepEqual(await run.store.leases.endLeases(before, 0), [], 'it was renewed');
      const seen = await held(owned);
      const strange = seen.map((lease) => ({ ...lease, owner: next }));
      assert.deepEqual(await run.store.leases.endLeases(strange, 0), [], 'somebody else’s');
      assert.deepEqual(byBucket(await run.store.leases.endLeases(seen.slice(0, 2), 0)), leases.slice(0, 2));
      assert.deepEqual((await held(owned)).map(bucketOf), [leases[2]?.bucket]);
      const taken = await owned.leasedTo(next, { only: leases.map(bucketOf) });
      assert.deepEqual(
        taken.map(({ crashes, former }) => ({ crashes, former })),
        [gone, gone].map((former) => ({ crashes: 1, former })),
      );
      assert.deepEqual(await run.store.leases.renew(gone, MINUTE), [leases[2]]);
    });
  });

  describe('a lease that is shortened', () => {
    it('is its owner’s until then, and again for as long as it renews it', async () => {
      const owned = await run.owned({ leased: false });
      const owner = randomUUID();
      const leases = await acquire(owned, owner, { limit: 2, leaseMs: 24 * 60 * MINUTE });
      const remaining = async (): Promise<number[]> =>
        (await run.other.leases.heldLeases())
          .filter(({ transport }) => transport === owned.transport)
          .map((lease) => lease.remaining);
      const seen = (await run.other.leases.heldLeases()).filter(({ transport }) => transport === owned.transport);
      assert.deepEqual(byBucket(await run.store.leases.endLeases(seen, 2 * MINUTE)), leases);
      assert.ok((await remaining()).every((ms) => ms > MINUTE && ms <= 2 * MINUTE));
      assert.deepEqual(await acquire(owned, randomUUID()).then((taken) => taken.length), owned.allBuckets.length - 2);
      assert.deepEqual(byBucket(await run.store.leases.renew(owner, 10 * MINUTE)), leases);
      assert.ok((await remaining()).some((ms) => ms > 9 * MINUTE));
    });
  });

  describe('what a crash leaves', () => {
    const next = (owned: OwnedTransport, owner = randomUUID(), leaseMs = MINUTE): Promise<Acquired> =>
      eventually('a takeover', async () => (await owned.leasedTo(owner, { only: [5], leaseMs }))[0]);

    it('counts leases that ran out in the hands of others, until one has lasted', async () => {
      const owned = await run.owned({ leased: false });
      const [a, b] = [randomUUID(), randomUUID()];
      assert.equal((await next(owned, a, 1)).crashes, 0);
      assert.equal((await next(owned, a, 1)).crashes, 0, 'it lives');
      const second = await next(owned, b, 1);
      assert.equal(second.crashes, 1);
      assert.equal(second.former, a);
      const third = await next(owned, a);
      assert.equal(third.crashes, 2);
      await run.store.leases.giveBack(a, [third]);
      const fourth = await next(owned, b);
      assert.equal(fourth.crashes, 2, 'given back is not lasted');
      await run.store.leases.renew(a, MINUTE, [fourth]);
      await run.store.leases.renew(b, MINUTE, [third]);
      await run.store.leases.giveBack(b, [fourth]);
      const fifth = await next(owned, b);
      assert.equal(fifth.crashes, 2, 'only its owner can say so, in its epoch');
      await run.store.leases.renew(b, MINUTE, [fifth]);
      await run.store.leases.giveBack(b, [fifth]);
      assert.equal((await next(owned, a)).crashes, 0);
    });

    it('counts one that the unlocker cleared', async () => {
      const owned = await run.owned({ leased: false });
      await expired(owned);
      await eventually('expiry', async () =>
        (await run.store.leases.expire()).some(({ transport }) => transport === owned.transport) ? true : undefined,
      );
      assert.equal((await next(owned)).crashes, 1);
    });

    it('tells what its owner was publishing by itself, unless that said that it is through', async () => {
      const owned = await run.owned({ leased: false });
      const [owner, id] = [randomUUID(), randomUUID()];
      const first = await next(owned, owner, MINUTE);
      assert.equal(first.trial, null);
      assert.equal(await run.store.leases.noteTrial(randomUUID(), first, id), false);
      assert.equal(await run.store.leases.noteTrial(owner, { ...first, epoch: '999' }, id), false);
      assert.equal(await run.store.leases.noteTrial(owner, first, id), true);
      await run.store.leases.renew(owner, 1);
      const second = await next(owned, owner);
      assert.equal(second.trial, id);
      assert.equal(await run.store.leases.noteTrial(owner, first, null), false, 'not in this epoch');
      assert.equal(await run.store.leases.noteTrial(owner, second, null), true);
      assert.equal(await run.store.leases.noteTrial(owner, second, id), true);
      await run.store.leases.giveBack(owner, [second]);
      assert.equal((await next(owned)).trial, null, 'given back in peace');
    });

    it('tells the last one of the owner only, in whatever bucket', async () => {
      const owned = await run.owned({ leased: false });
      const [owner, id] = [randomUUID(), randomUUID()];
      const [former, last] = (await owned.leasedTo(owner, { only: [5, 6], leaseMs: MINUTE })) as [Acquired, Acquired];
      assert.equal(await run.store.leases.noteTrial(owner, former, randomUUID()), true);
      assert.equal(await run.store.leases.noteTrial(owner, last, id), true);
      await run.store.leases.renew(owner, 1);
      const taken = new Map<number, string | null>();
      await eventually('takeover', async () => {
        for (const { bucket, trial } of await owned.leasedTo(randomUUID(), { only: [5, 6] })) taken.set(bucket, trial);
        return taken.size === 2 ? true : undefined;
      });
      assert.deepEqual([taken.get(5), taken.get(6)], [null, id]);
    });

    for (const answer of [true, false]) {
      it(`forgets what the owner tried before, in a bucket that has run out, too: the next one goes: ${answer}`, async () => {
        const owned = await run.owned({ leased: false });
        const owner = randomUUID();
        const [former] = (await owned.leasedTo(owner, { only: [5] })) as [Acquired];
        const [elsewhere] = (await (await run.owned({ leased: false })).leasedTo(owner, { only: [5] })) as [Acquired];
        for (const lease of [former, elsewhere])
          assert.ok(await run.store.leases.noteTrial(owner, lease, randomUUID()));
        await eventually('expiry', async () =>
          (await run.store.leases.renew(owner, 1)).length === 0 ? true : undefined,
        );
        const [last] = (await owned.leasedTo(owner, { only: [6] })) as [Acquired];
        const named = answer ? last : { ...last, epoch: '999' };
        assert.equal(await run.store.leases.noteTrial(owner, named, randomUUID()), answer);
        assert.equal((await next(owned)).trial, null);
        const { transport } = elsewhere;
        const [other] = await run.other.leases.acquire({ owner, transport, leaseMs: MINUTE, limit: 1, only: [5] });
        assert.ok(other?.trial, 'of another transport');
      });
    }

    it('notes nothing once the lease has run out', async () => {
      const owned = await run.owned({ leased: false });
      const owner = randomUUID();
      const lease = await expired(owned, owner);
      await eventually('expiry', async () =>
        (await run.store.leases.renew(owner, 1)).length === 0 ? true : undefined,
      );
      assert.equal(await run.store.leases.noteTrial(owner, lease, randomUUID()), false);
    });
  });

  describe('instances', () => {
    it('sees who is alive, with what, until they leave or stop beating', async () => {
      const [a, b] = [randomUUID(), randomUUID()];
      await run.store.leases.beat({ owner: a, transports: [1, 2], info: 'a' }, MINUTE);
      const { instances: both } = await run.other.leases.beat(
        { owner: b, transports: [], info: 'b \u{1F4A5}' },
        MINUTE,
      );
      assert.deepEqual(withoutTime(both.find(({ owner }) => owner === a)), {
        owner: a,
        transports: [1, 2],
        info: 'a',
        until: undefined,
      });
      assert.deepEqual(withoutTime(both.find(({ owner }) => owner === b)), {
        owner: b,
        transports: [],
        info: 'b \u{1F4A5}',
        until: undefined,
      });
      await leave(run.store, a);
      await run.other.leases.beat({ owner: a, transports: [3], info: 'a' }, 1);
      await eventually('death of a', async () => {
        const { instances: alive } = await run.store.leases.beat({ owner: b, transports: [7], info: 'b' }, MINUTE);
        assert.deepEqual(alive.find(({ owner }) => owner === b)?.transports, [7]);
        return alive.some(({ owner }) => owner === a) ? undefined : true;
      });
      await leave(run.store, b);
    });

    it('B17: looks who is alive, and what time it is, without a word of its own', async () => {
      const [a, b] = [randomUUID(), randomUUID()];
      const said = await run.store.leases.beat({ owner: a, transports: [3, 5], info: 'a \u{1F4A5}' }, MINUTE);
      const before = said.instances.find(({ owner }) => owner === a);
      await run.store.leases.beat({ owner: b, transports: [], info: 'b' }, 1);
      const { instances, now } = await eventually('death of b', async () => {
        const looked = await run.other.leases.living();
        return looked.instances.some(({ owner }) => owner === b) ? undefined : looked;
      });
      const after = instances.find(({ owner }) => owner === a);
      assert.deepEqual(after, { owner: a, transports: [3, 5], info: 'a \u{1F4A5}', until: before?.until });
      assert.ok(now >= said.now, `${now} after ${said.now}`);
      await leave(run.store, a);
    });

    it('hears what time it is by the clock that dates messages', async () => {
      const owned = await run.owned();
      const instance = { owner: randomUUID(), transports: [], info: '' };
      const before = (await run.other.leases.beat(instance, MINUTE)).now;
      await owned.insert({});
      const after = (await run.store.leases.beat(instance, MINUTE)).now;
      await leave(run.store, instance.owner);
      const created = (await owned.ready())[0]?.createdAt.getTime() ?? Number.NaN;
      assert.ok(Math.floor(before) <= created && created <= after, `${before} ${created} ${after}`);
    });
  });
}

const withoutTime = (instance: LiveInstance | undefined): object => ({ ...instance, until: undefined });
const byBucket = (leases: readonly Lease[]): Lease[] => [...leases].sort((a, b) => a.bucket - b.bucket);
const bucketOf = (lease: Lease): number => lease.bucket;
