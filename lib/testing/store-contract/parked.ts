import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { eventually, idsOf, type OwnedTransport, type StoreRun } from './harness.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { ReparkEntry } from '../../store/parked-store.js';

const LATER = 3_600_000;

/** One key: the first row in this state, the rest blocked behind it. Returns ids in order. */
async function key(
  owned: OwnedTransport,
  first: 'waiting' | 'dead',
  delay: number | null,
  behind = 2,
): Promise<string[]> {
  await owned.insert(...Array.from({ length: behind + 1 }, () => ({})));
  const messages = await owned.ready();
  await owned.park(messages.slice(0, 1), { state: first, delay });
  await owned.park(messages.slice(1), { state: 'blocked', delay: null });
  return idsOf(messages);
}

export function describeParked(run: StoreRun): void {
  const { describe, it } = run.runner;
  const { inOrder } = run;
  describe('due', () => {
    it('shows what is due, oldest first, and when the next one will be', async () => {
      const owned = await run.owned();
      assert.deepEqual(await owned.due(), { rows: [], nextIn: null });
      await owned.insert(
        { delay: LATER, key: null },
        { deliverAt: new Date(Date.now() + 2 * LATER), key: null, bucket: 2 },
      );
      const { rows, nextIn } = await owned.due();
      assert.deepEqual(rows, []);
      assert.ok(nextIn !== null && nextIn > LATER - 60_000 && nextIn <= LATER, String(nextIn));
      assert.equal((await run.store.parked.due(owned.transport, [5], 10)).nextIn, null);
      const [second] = await owned.insert(
        { deliverAt: new Date(0), key: 'x' },
        { deliverAt: new Date(1000), key: null },
      );
      const due = await owned.due(1);
      assert.equal(due.rows.length, 1);
      assert.deepEqual(
        [due.rows[0]?.key, due.rows[0]?.state, due.rows[0]?.bucket],
        [run.ordered ? 'x' : null, 'scheduled', 1],
      );
      assert.equal((await owned.take()).messages[0]?.id, second);
    });
  });
  describe('take', () => {
    it('and due ask for no key of a row that holds nobody back, and give it as it is', async () => {
      const owned = await run.owned();
      await owned.parked({}, { blocks: false });
      assert.deepEqual(
        (await owned.due()).rows.map(({ key: name, state }) => [name, state]),
        [[null, 'waiting']],
      );
      const { messages, clear } = await owned.take();
      assert.deepEqual([messages.map((message) => message.key), clear], [['k'], []]);
    });

    it('takes what is due once, in this epoch', async () => {
      const owned = await run.owned();
      const id = await owned.parked({ key: null }, { state: 'waiting' });
      const { messages } = await owned.take();
      assert.deepEqual(idsOf(messages), [id]);
      assert.equal(messages[0]?.parkedState, 'waiting');
      assert.deepEqual((await owned.due()).rows, []);
      assert.deepEqual((await owned.take()).messages, []);
      assert.equal((await owned.settle(messages)).affected, 1);
      assert.equal((await owned.settle(messages)).affected, 0);
    });

    it('takes nothing without the lease', async () => {
      const owned = await run.owned({ leaseMs: 60_000 });
      await owned.parked({ key: null });
      const request = {
        transport: owned.transport,
        leases: owned.leases,
        due: (await owned.due()).rows,
        keys: [],
        perKey: 10,
      };
      assert.deepEqual((await run.store.parked.take({ ...request, owner: randomUUID() })).messages, []);
      await run.store.leases.giveBack(run.owner, owned.leases);
      assert.deepEqual((await run.store.parked.take({ ...request, owner: run.owner })).messages, []);
      const [old] = [owned.leases, await owned.acquire(run.store, 60_000)];
      assert.deepEqual((await run.store.parked.take({ ...request, leases: old, owner: run.owner })).messages, []);
      assert.equal((await owned.take()).messages.length, 1);
    });

    inOrder('takes again what an older epoch was sending', async () => {
      const owned = await run.owned();
      const keyless = await owned.parked({ key: null });
      const ordered = await key(owned, 'waiting', 0, 2);
      const first = await owned.take();
      assert.deepEqual(new Set(idsOf(first.messages)), new Set([keyless, ordered[0]]));
      await owned.settle(first.messages.filter((message) => message.key !== null));
      const next = await owned.take(['k']);
      assert.deepEqual(idsOf(next.messages), ordered.slice(1));
      await run.store.leases.giveBack(run.owner, owned.leases);
      await owned.acquire(run.store, 60_000);
      assert.deepEqual(await run.store.parked.blockingKeys(owned.transport, [1], 10), [
        { bucket: 1, key: 'k', ready: true },
      ]);
      assert.deepEqual(idsOf((await owned.take(['k'])).messages), [keyless, ...ordered.slice(1)]);
      assert.deepEqual(await run.store.parked.blockingKeys(owned.transport, [1], 10), [
        { bucket: 1, key: 'k', ready: false },
      ]);
    });

    inOrder('sends the first of a key alone, then the rest in order, then reports the key as clear', async () => {
      const owned = await run.owned();
      const ids = await key(owned, 'waiting', 0, 5);
      const first = await owned.take();
      assert.deepEqual(idsOf(first.messages), ids.slice(0, 1));
      assert.deepEqual(first.clear, []);
      assert.deepEqual((await owned.take(['k'])).messages, [], 'the first is still being sent');
      await owned.settle(first.messages);
      const second = await owned.take(['k'], 2);
      assert.deepEqual(idsOf(second.messages), ids.slice(1, 3));
      await owned.settle(second.messages);
      const third = await owned.take(['k']);
      assert.deepEqual(idsOf(third.messages), ids.slice(3));
      await owned.settle(third.messages);
      assert.deepEqual((await owned.take(['k', 'never'])).clear, [
        { bucket: 1, key: 'k' },
        { bucket: 1, key: 'never' },
      ]);
    });

    inOrder('holds a key behind a row that waits or is dead', async () => {
      for (const [state, delay] of [
        ['waiting', LATER],
        ['dead', null],
      ] as const) {
        const owned = await run.owned();
        await key(owned, state, delay);
        const taken = await owned.take(['k']);
        assert.deepEqual([taken.messages, taken.clear], [[], []]);
        assert.deepEqual(await run.store.parked.blockingKeys(owned.transport, [1], 10), [
          { bucket: 1, key: 'k', ready: false },
        ]);
      }
    });

    inOrder('puts a due row behind an earlier one of its key, where it does not clog the poll', async () => {
      const owned = await run.owned();
      const earlier = await owned.parked({}, { state: 'waiting', delay: 0 });
      const behind = await owned.parked({}, { state: 'waiting', delay: 0 });
      assert.equal((await owned.due()).rows.length, 2);
      const first = await owned.take();
      assert.deepEqual(idsOf(first.messages), [earlier]);
      assert.deepEqual(await owned.due(), { rows: [], nextIn: null });
      await owned.settle(first.messages);
      assert.deepEqual(idsOf((await owned.take(['k'])).messages), [behind]);
    });

    inOrder('lets a scheduled message hold its key only from its time on', async () => {
      const owned = await run.owned();
      await owned.insert({ delay: LATER });
      assert.deepEqual(await run.store.parked.blockedAmong(owned.transport, [{ bucket: 1, key: 'k' }]), []);
      await owned.insert({ delay: 0, key: 'now' });
      await owned.take();
      const asked = ['k', 'now', 'none'].map((name) => ({ bucket: 1, key: name }));
      assert.deepEqual(await run.store.parked.blockedAmong(owned.transport, asked), [{ bucket: 1, key: 'now' }]);
    });
  });
  describeRepark(run);
}

function describeRepark(run: StoreRun): void {
  const { describe, it } = run.runner;
  const { inOrder } = run;
  describe('repark', () => {
    it('records what happened, for rows that this epoch is sending', async () => {
      const owned = await run.owned();
      const id = await owned.parked({});
      const { messages } = await owned.take();
      const stale = owned.leases.map((lease) => ({ ...lease, epoch: String(BigInt(lease.epoch) - 1n) }));
      const entry = { attempts: 5, delay: 0, blocks: run.ordered };
      assert.equal(await owned.repark(messages, entry, { leases: stale }), 0);
      assert.equal(await owned.repark(messages, entry, { owner: randomUUID() }), 0);
      assert.equal(await owned.repark(messages, entry), 1);
      assert.equal(await owned.repark(messages, entry), 0, 'not being sent any more');
      const again = await owned.take();
      assert.deepEqual(
        again.messages.map((m) => [m.id, m.attempts]),
        [[id, 5]],
      );
    });

    it('keeps what the transport left, as it is, until it leaves something else', async () => {
      const owned = await run.owned();
      const progress = '["ключ \\\\ \\" {1,2} 💥","null"]';
      await owned.parked({ key: null, topic: 'without' });
      await owned.parked({ key: null, topic: 'with' }, { progress });
      const seen = async (fields: Partial<ReparkEntry>) => {
        const { messages } = await owned.take();
        assert.equal(await owned.repark(messages, fields), 2);
        return messages.map((message) => message.progress);
      };
      assert.deepEqual(await seen({}), [null, progress]);
      assert.deepEqual(await seen({ progress: '["a"]' }), [null, progress], 'absent: unchanged');
      assert.deepEqual(await seen({ progress: null }), ['["a"]', '["a"]']);
      assert.deepEqual(await seen({ state: 'dead', delay: null, progress }), [null, null]);
      const letters = await run.store.parked.unannouncedDead([owned.transport], 10);
      assert.deepEqual(
        letters.map(({ message, transport, error }) => [message.progress, transport, error]),
        [
          [progress, owned.transport, 'refused'],
          [progress, owned.transport, 'refused'], // no error: the last one stays
        ],
      );
    });

    it('and park write what a lease that ran out has seen, as long as nobody took it over; take does not', async () => {
      const owned = await run.owned();
      const id = await owned.parked({ key: null });
      const { messages } = await owned.take();
      const [ready] = await owned.insert({ key: null });
      const rows = await owned.ready();
      await run.store.leases.renew(run.owner, 1);
      await eventually('expiry', async () =>
        (await run.store.leases.renew(run.owner, 1)).length === 0 ? true : undefined,
      );
      assert.equal((await owned.park(rows)).affected, 1);
      assert.equal(await owned.repark(messages, { attempts: 5 }), 1);
      assert.deepEqual((await owned.take()).messages, []);
      await owned.acquire(run.store, 60_000);
      const attempts = new Map((await owned.take()).messages.map((message) => [message.id, message.attempts]));
      assert.deepEqual([attempts.get(id), attempts.get(ready as string)], [5, 1]);
    });

    it('and park: a delay counts for what waits, and none is no delay', async () => {
      const owned = await run.owned();
      const unset = { delay: 0, blocks: false } as const;
      const waiting = await owned.parked({ key: null }, { state: 'waiting', delay: null });
      await owned.parked({ key: null }, { state: 'dead', ...unset });
      await owned.parked({ key: 'b' }, { state: 'blocked', delay: 0 });
      const look = async () => (await owned.due()).rows.map(({ state }) => state);
      assert.deepEqual(await look(), ['waiting']);
      const write = async (fields: Partial<ReparkEntry>): Promise<void> => {
        const { messages } = await owned.take();
        assert.deepEqual(idsOf(messages), [waiting]);
        assert.equal(await owned.repark(messages, fields), 1);
      };
      await write({ state: 'waiting', delay: null });
      await write({ state: 'dead', ...unset });
      assert.deepEqual(await owned.due(), { rows: [], nextIn: null });
    });

    inOrder('gives blocked rows back to their place, and waits again', async () => {
      const owned = await run.owned();
      const ids = await key(owned, 'waiting', 0, 3);
      const [first] = (await owned.take()).messages as [OutboxMessage];
      await owned.repark([first], { delay: LATER });
      const { rows, nextIn } = await owned.due();
      assert.ok(rows.length === 0 && nextIn !== null && nextIn > LATER - 60_000);
      await owned.settle([first]);
      const sent = (await owned.take()).messages; // the settle of a row that was not being sent woke the key
      assert.equal(sent.length, 3);
      await owned.repark(sent, { state: 'blocked', delay: null });
      assert.deepEqual(idsOf((await owned.take(['k'])).messages), ids.slice(1));
    });
  });
}
