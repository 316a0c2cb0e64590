import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { OutboxMessage } from '../../outbox-message.js';
import type { OutboxStore } from '../../store/outbox-store.js';
import type { ReparkEntry } from '../../store/parked-store.js';
import { idsOf, parkEntry, repark, settled, type OwnedTransport, type StoreRun } from './harness.js';

/** Rounds per race: each starts both sides at once and asserts what must hold whoever was first. */
const ROUNDS = 40;

export function describeRaces(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('races', () => {
    describeRequeuedMeanwhile(run);

    it('gives no bucket to two acquirers', async () => {
      for (let round = 0; round < ROUNDS / 4; round++) {
        const owned = await run.owned({ leased: false });
        const acquire = ({ leases }: OutboxStore) =>
          leases.acquire({ owner: randomUUID(), transport: owned.transport, leaseMs: 60_000, limit: 1000 });
        const all = await Promise.all([run.store, run.other].map(acquire));
        const taken = all.flatMap((leases) => leases.map(({ bucket }) => bucket));
        assert.equal(new Set(taken).size, taken.length);
      }
    });

    it('B2: lets no parking of an old epoch commit after a takeover', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const owned = await run.owned({ leaseMs: 1 });
        await owned.insert({}, {});
        const messages = await owned.ready();
        const zombie = run.store.ready.park(
          run.owner,
          owned.leases,
          messages.map((message) => parkEntry(message)),
        );
        const takeover = async () => {
          const leases = await owned.leasedTo(randomUUID(), { only: [1] });
          return leases.length > 0 ? owned.readyIds(run.other) : undefined;
        };
        const seen = await takeover();
        const { affected } = await zombie;
        if (seen === undefined) continue; // its lease row was locked: the park was first and is through
        assert.deepEqual(await owned.readyIds(), seen, 'what the new owner read as ready stays ready');
        assert.equal(affected + seen.length, messages.length);
      }
    });

    it('B2: lets no repark of an old epoch commit after a takeover', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const owned = await run.owned();
        await owned.parked({ key: null });
        const { messages } = await owned.take();
        const old = owned.leases;
        await run.store.leases.giveBack(run.owner, old);
        const zombie = owned.repark(messages, { state: 'dead', delay: null }, { leases: old });
        await owned.leasedTo();
        assert.equal(await zombie, 0);
      }
    });

    it('writes nothing of a life that a requeue has ended, when it comes late', async () => {
      const owned = await run.owned();
      const id = await owned.parked({}, { attempts: 2 });
      const take = async (): Promise<OutboxMessage> => ((await owned.take()).messages as [OutboxMessage])[0];
      const former = repark(await take(), { state: 'dead', attempts: 3, delay: null });
      const write = async (entry: ReparkEntry) =>
        (await run.store.parked.repark(run.owner, owned.leases, [entry])).affected;
      assert.equal(await write(former), 1);
      assert.deepEqual((await run.operator.requeue({ ids: [id] })).changed, [id]);
      const again = await take();
      assert.equal(again.attempts, 0);
      assert.equal(await write(former), 0);
      assert.equal(await write(repark(again)), 1);
      assert.equal((await take()).attempts, 1);
    });

    it('cancels or sends, never both', async () => {
      const outcomes = new Set<string>();
      const owned = await run.owned();
      for (let round = 0; round < ROUNDS; round++) {
        const [id] = (await owned.insert({ delay: 0, key: round % 2 ? 'k' : null })) as [string];
        const [taken, cancelled] = await Promise.all([owned.take(), run.operator.cancel({ ids: [id] })]);
        const sent = taken.messages.length === 1;
        outcomes.add(sent ? 'sent' : 'cancelled');
        assert.deepEqual(
          cancelled,
          sent
            ? { done: 0, changed: [], tooLate: [id], notFound: [] }
            : { done: 1, changed: [id], tooLate: [], notFound: [] },
        );
        await owned.settle(taken.messages);
      }
      assert.ok(outcomes.size > 0);
    });

    it('settles a message while the next owner parks it', async () => {
      const owned = await run.owned();
      for (let round = 0; round < ROUNDS; round++) {
        await owned.insert({}, {});
        const messages = await owned.ready();
        const [parked, gone] = await Promise.all([
          owned.park(messages, { state: 'blocked', delay: null }),
          run.other.ready.settle(owned.transport, messages.map(settled), round % 2 ? 'archive' : 'delete'),
        ]);
        assert.equal(gone.affected, 2, `parked ${parked.affected}`);
        assert.deepEqual(await owned.ready(), []);
        assert.deepEqual(await run.store.parked.blockingKeys(owned.transport, owned.allBuckets, 10), []);
      }
    });

    it('settles a message once, whoever says so', async () => {
      const owned = await run.owned();
      while ((await run.store.cleaner.clean('archive', 0, 100)).removed > 0);
      for (let round = 0; round < ROUNDS / 2; round++) {
        await owned.insert({}, {}, {});
        const messages = (await owned.ready()).map(settled);
        const [one, other] = await Promise.all(
          [run.store, run.other].map((store) => store.ready.settle(owned.transport, messages, 'archive')),
        );
        assert.equal((one?.affected ?? 0) + (other?.affected ?? 0), 3);
        assert.equal((await run.store.cleaner.clean('archive', 0, 100)).removed, 3);
      }
    });
  });
}

/** Between the look at what is due and the taking of it: it was found without a key, and holds one now. */
function describeRequeuedMeanwhile(run: StoreRun): void {
  const takeRequeued = async (owned: OwnedTransport, id: string): Promise<string[]> => {
    const due = (await owned.due()).rows;
    assert.deepEqual((await run.operator.requeue({ ids: [id] })).changed, [id]);
    const { transport, leases } = owned;
    const taken = await run.store.parked.take({ owner: run.owner, transport, leases, due, keys: [], perKey: 1 });
    return taken.messages.map((message) => message.id);
  };

  run.runner.it('takes what an operator requeued since it was found due', async () => {
    const owned = await run.owned();
    const id = await owned.parked({}, { blocks: false });
    assert.deepEqual(await takeRequeued(owned, id), [id]);
  });

  run.inOrder('but not if it stands behind an earlier one of its key', async () => {
    const owned = await run.owned();
    const [first, second] = (await owned.insert({}, {})) as [string, string];
    const [dead, later] = (await owned.ready()) as [OutboxMessage, OutboxMessage];
    await owned.park([dead], { state: 'dead', delay: null });
    await owned.park([later], { blocks: false });
    assert.deepEqual(await takeRequeued(owned, second), []);
    await run.operator.discard({ ids: [first] });
    assert.deepEqual(idsOf((await owned.take()).messages), [second]);
  });
}
