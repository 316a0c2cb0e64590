import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { TransportStats } from '../../store/admin-store.js';
import { describeGlance } from './glance.js';
import { settled, type OwnedTransport, type StoreRun } from './harness.js';

const LATER = 3_600_000;

/** A dead first row and two blocked behind it. */
async function blockedKey(owned: OwnedTransport, key = 'k'): Promise<string[]> {
  await owned.insert({ key }, { key }, { key });
  const messages = (await owned.ready()).filter((message) => message.key === key);
  await owned.park(messages.slice(0, 1), { state: 'dead', delay: null });
  await owned.park(messages.slice(1), { state: 'blocked', delay: null });
  return messages.map(({ id }) => id);
}

export function describeOperators(run: StoreRun): void {
  const { describe, it } = run.runner;
  const { inOrder } = run;
  describe('cancel', () => {
    it('stops what is not on its way, and tells what cannot be stopped', async () => {
      const owned = await run.owned();
      const [scheduled] = (await owned.insert({ delay: LATER })) as [string];
      const sending = await owned.parked({ key: null });
      await owned.take();
      const [ready] = (await owned.insert({ key: null })) as [string];
      const nowhere = randomUUID();
      const report = await run.other.admin.cancel({ ids: [scheduled, sending, ready, nowhere], limit: 10 });
      assert.deepEqual(report.done, [scheduled]);
      assert.deepEqual(new Set(report.tooLate), new Set([sending, ready]));
      assert.deepEqual(report.notFound, [nowhere]);
    });

    it('stops what a lost lease was sending', async () => {
      const owned = await run.owned();
      const id = await owned.parked({ key: null });
      await owned.take();
      await run.store.leases.giveBack(run.owner, owned.leases);
      assert.deepEqual((await run.other.admin.cancel({ ids: [id], limit: 1 })).done, [id]);
    });

    it('touches as many rows as allowed, of those that the filter names', async () => {
      const owned = await run.owned();
      await owned.insert(
        { delay: LATER, topic: 'a' },
        { delay: LATER, topic: 'a', type: 'x' },
        { delay: LATER, key: 'other' },
      );
      const { transport } = owned;
      assert.equal((await run.store.admin.cancel({ transport, topic: 'a', type: 'y', limit: 10 })).done.length, 0);
      assert.equal((await run.store.admin.cancel({ transport, topic: 'a', type: 'x', limit: 10 })).done.length, 1);
      assert.equal((await run.store.admin.cancel({ transport, key: 'other', limit: 10 })).done.length, 1);
      await owned.insert({ delay: LATER, topic: 'a' });
      assert.equal((await run.store.admin.cancel({ transport, topic: 'a', limit: 1 })).done.length, 1);
      assert.equal((await run.store.admin.cancel({ transport, limit: 10 })).done.length, 1);
    });
  });

  describeTooLate(run);
  describe('requeue', () => {
    inOrder('puts a dead message back into its old place', async () => {
      const owned = await run.owned();
      const ids = await blockedKey(owned);
      assert.deepEqual(
        (await run.other.admin.requeue({ transport: owned.transport, key: 'k', type: 'order.placed', limit: 1 })).done,
        ids.slice(0, 1),
      );
      const first = await owned.take();
      assert.deepEqual(
        first.messages.map(({ id, attempts }) => [id, attempts]),
        [[ids[0], 0]],
      );
      await owned.settle(first.messages);
      assert.deepEqual(
        (await owned.take(['k'])).messages.map(({ id }) => id),
        ids.slice(1),
      );
    });

    inOrder('does not let a later message pass an earlier one', async () => {
      const owned = await run.owned();
      const ids = await blockedKey(owned);
      assert.deepEqual((await run.other.admin.requeue({ ids: ids.slice(2), limit: 10 })).done, ids.slice(2));
      assert.deepEqual((await owned.take(['k'])).messages, []);
      assert.deepEqual((await owned.due()).rows, []);
    });

    it('says that ready messages are too late, and scheduled ones are not requeued', async () => {
      const owned = await run.owned();
      const [ready, scheduled] = (await owned.insert({}, { delay: LATER })) as [string, string];
      assert.deepEqual(await run.store.admin.requeue({ ids: [ready, scheduled], limit: 10 }), {
        done: [],
        tooLate: [ready, scheduled],
        notFound: [],
        left: 0,
      });
    });
  });

  describe('discard and release', () => {
    inOrder('deletes the first of a key, and the key goes on', async () => {
      const owned = await run.owned();
      const ids = await blockedKey(owned);
      assert.deepEqual((await run.other.admin.discard({ ids: [ids[0] as string], limit: 1 })).done, [ids[0]]);
      assert.deepEqual(
        (await owned.take()).messages.map(({ id }) => id),
        ids.slice(1),
      );
    });

    it('leave the first of a key its backoff, whatever behind it is removed', async () => {
      const owned = await run.owned();
      const ids = await owned.insert({ key: 'k' }, { key: 'k' }, { key: 'k' }, { key: 'k' });
      const messages = await owned.ready();
      await owned.park(messages.slice(0, 1), { state: 'waiting', delay: LATER });
      await owned.park(messages.slice(1, 3), { state: 'blocked', delay: null });
      await owned.park(messages.slice(3), { state: 'dead', delay: null });
      assert.deepEqual((await run.other.admin.discard({ ids: [ids[2] as string], limit: 1 })).done, [ids[2]]);
      assert.deepEqual((await run.other.admin.cancel({ ids: [ids[1] as string], limit: 1 })).done, [ids[1]]);
      while ((await run.store.cleaner.cleanDead(0, 100, false)) > 0);
      assert.deepEqual((await owned.due()).rows, []);
    });

    it('begin with the first in the order of enqueues, whichever was parked first', async () => {
      const owned = await run.owned();
      const { transport } = owned;
      const key = randomUUID();
      const bucket = await bucketByStore(run, key);
      const ids = await owned.insert({ key, bucket }, { key, bucket }, { key, bucket });
      for (const message of (await owned.ready()).reverse())
        await owned.park([message], { state: 'dead', delay: null });
      assert.deepEqual((await run.other.admin.discard({ transport, limit: 1 })).done, ids.slice(0, 1));
      assert.deepEqual((await run.other.admin.cancel({ key, limit: 1 })).done, ids.slice(1, 2));
    });

    inOrder('lets a key go on past its dead message, which stays', async () => {
      const owned = await run.owned();
      const key = randomUUID();
      const bucket = await bucketByStore(run, key);
      const rows = [
        { key, bucket },
        { key, bucket },
      ];
      const ids = await owned.insert(...rows);
      const messages = await owned.ready();
      await owned.park(messages.slice(0, 1), { state: 'dead', delay: null });
      await owned.park(messages.slice(1), { state: 'blocked', delay: null });
      assert.deepEqual(await run.other.admin.release({ key, transport: owned.transport }), { released: 1 });
      const taken = await owned.take();
      assert.deepEqual(
        taken.messages.map(({ id }) => id),
        ids.slice(1),
      );
      await owned.settle(taken.messages);
      assert.deepEqual(await run.store.parked.blockingKeys(owned.transport, owned.allBuckets, 10), []);
      assert.deepEqual((await run.store.admin.requeue({ ids: [ids[0] as string], limit: 1 })).done, [ids[0]]);
      assert.deepEqual(await run.other.admin.release({ key: randomUUID() }), { released: 0 });
    });
  });
  describeStats(run);
  describeGlance(run);
}

/** What an operator means by a filter and cannot have any more is named, as it is for ids. */
function describeTooLate(run: StoreRun): void {
  const { describe, it } = run.runner;
  const ACTIONS = ['cancel', 'discard', 'requeue'] as const;
  describe('a filter that comes too late', () => {
    for (const action of ACTIONS) {
      it(`names what is ready and what is being sent: ${action}`, async () => {
        const owned = await run.owned();
        const { transport } = owned;
        const key = randomUUID();
        const bucket = await bucketByStore(run, key);
        const sending = await owned.parked({ key, bucket, type: 'x' });
        await owned.take();
        const [ready] = (await owned.insert({ key, bucket, topic: 't' }, { key: 'other' })) as [string];
        const tooLate = async (filter: object): Promise<Set<string>> => {
          const report = await run.other.admin[action]({ transport, limit: 10, ...filter });
          assert.deepEqual([report.done, report.notFound], [[], []]);
          assert.equal(new Set(report.tooLate).size, report.tooLate.length);
          return new Set(report.tooLate);
        };
        assert.deepEqual(await tooLate({ key }), new Set([ready, sending]));
        assert.deepEqual(await tooLate({ key, type: 'x' }), new Set([sending]));
        assert.deepEqual(await tooLate({ key, topic: 't' }), new Set([ready]));
        assert.deepEqual(await tooLate({ topic: 't' }), new Set([ready]));
        assert.equal((await tooLate({})).size, 3);
        assert.equal((await tooLate({ limit: 2 })).size, 2);
        assert.equal((await tooLate({ key, limit: 1 })).size, 1);
        assert.deepEqual(await tooLate({ key: randomUUID() }), new Set());
        assert.deepEqual(await tooLate({ topic: 't ' }), new Set());
      });
    }

    it('is of all transports when it names none', async () => {
      const [one, two] = [await run.owned(), await run.owned()];
      const key = randomUUID();
      const bucket = await bucketByStore(run, key);
      const ids = [...(await one.insert({ key, bucket })), ...(await two.insert({ key, bucket }))];
      assert.deepEqual(new Set((await run.other.admin.cancel({ key, limit: 10 })).tooLate), new Set(ids));
    });

    it('stops what it can, and names the rest', async () => {
      const owned = await run.owned();
      const key = randomUUID();
      const bucket = await bucketByStore(run, key);
      const [scheduled, ready] = (await owned.insert({ key, bucket, delay: LATER }, { key, bucket })) as [
        string,
        string,
      ];
      const requeued = await run.other.admin.requeue({ key, limit: 10 });
      assert.deepEqual(requeued, { done: [], tooLate: [ready], notFound: [], left: 0 }); // it waits for its time, which is no fault
      const report = await run.other.admin.cancel({ key, limit: 10 });
      assert.deepEqual(report, { done: [scheduled], tooLate: [ready], notFound: [], left: 0 });
    });

    it('is not what was just done', async () => {
      const owned = await run.owned();
      const { transport } = owned;
      const id = await owned.parked({ key: null });
      const [ready] = (await owned.insert({ key: null })) as [string];
      const report = await run.other.admin.requeue({ transport, limit: 10 });
      assert.deepEqual(report, { done: [id], tooLate: [ready], notFound: [], left: 0 });
    });

    it('waits for nobody, and holds up nobody', async () => {
      const owned = await run.owned();
      const key = randomUUID();
      const bucket = await bucketByStore(run, key);
      const [ready] = (await owned.insert({ key, bucket })) as [string];
      const writing = await run.harness.begin();
      await run.store.writer.insert(writing.tx, [owned.message({ key, bucket })]);
      assert.deepEqual((await run.other.admin.cancel({ key, limit: 10 })).tooLate, [ready]);
      await writing.rollback();
      const request = { transport: owned.transport, limit: 10, onPublished: 'delete' } as const;
      await run.store.rowLocks.withLockedRows(request, async (messages) => {
        assert.deepEqual((await run.other.admin.cancel({ key, limit: 10 })).tooLate, [ready]);
        return { published: messages.map(settled), parked: [], reparked: [] };
      });
      assert.deepEqual((await run.other.admin.cancel({ key, limit: 10 })).tooLate, []);
    });
  });
}

/** The same formula as in `bucket-of`, of which a store may know nothing: the contract fixes it. */
async function bucketByStore(run: StoreRun, key: string): Promise<number> {
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(key));
  return new DataView(hash).getUint16(0) % run.harness.settings.buckets;
}

function describeStats(run: StoreRun): void {
  const { describe } = run.runner;
  const { inOrder } = run;
  describe('stats', () => {
    inOrder('counts by transport and state', async () => {
      const owned = await run.owned();
      const owner = randomUUID();
      await run.store.leases.beat({ owner, transports: [owned.transport], info: '' }, 60_000);
      await blockedKey(owned);
      await owned.insert({ delay: LATER });
      await owned.parked({ key: null }, { delay: LATER });
      await owned.insert({}, { bucket: 2 });
      const stats = (await run.store.admin.stats()).find(({ transport }) => transport === owned.transport);
      await run.store.leases.leave(owner);
      assert.ok(stats?.oldestReadyAge !== null && (stats?.oldestReadyAge as number) >= 0);
      const {
        missingLeases = 0,
        rowsHidden = false,
        failingOften = 0,
        mostAttempts = 0,
        ...counts
      } = stats as TransportStats;
      assert.deepEqual([missingLeases, rowsHidden, failingOften, mostAttempts], [0, false, 0, 0]);
      assert.deepEqual(
        { ...counts, oldestReadyAge: null },
        {
          transport: owned.transport,
          name: owned.name,
          ready: 2,
          readyIsExact: true,
          scheduled: 1,
          waiting: 1,
          blocked: 2,
          dead: 1,
          blockedKeys: 1,
          oldestReadyAge: null,
          leasedBuckets: owned.allBuckets.length,
          instances: 1,
        },
      );
    });
  });
}
