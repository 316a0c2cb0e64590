import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { OutboxMessage } from '../../outbox-message.js';
import type { ReparkEntry } from '../../store/parked-store.js';
import { parkEntry, type Lane, type StoreRun } from './harness.js';
import { repark } from './parked.js';

/** Rounds per race: each starts both sides at once and asserts what must hold whoever was first. */
const ROUNDS = 40;

export function describeRaces(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('races', () => {
    describeRequeuedMeanwhile(run);

    it('gives no bucket to two acquirers', async () => {
      for (let round = 0; round < ROUNDS / 4; round++) {
        const lane = await run.lane({ leased: false });
        const owners = [randomUUID(), randomUUID()];
        const acquire = (i: number) =>
          [run.store, run.other][i]?.acquire({
            owner: owners[i] as string,
            transport: lane.transport,
            leaseMs: 60_000,
            limit: 1000,
          });
        const taken = (await Promise.all([acquire(0), acquire(1)])).flatMap(
          (leases) => leases?.map(({ bucket }) => bucket) ?? [],
        );
        assert.equal(new Set(taken).size, taken.length);
      }
    });

    it('B2: lets no parking of an old epoch commit after a takeover', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const lane = await run.lane({ leaseMs: 1 });
        await lane.insert({}, {});
        const messages = await lane.ready();
        const zombie = run.store.park(
          run.owner,
          lane.leases,
          messages.map((message) => parkEntry(message)),
        );
        const takeover = async () => {
          const leases = await run.other.acquire({
            owner: randomUUID(),
            transport: lane.transport,
            leaseMs: 60_000,
            limit: 1000,
            only: [1],
          });
          return leases.length > 0 ? lane.readyIds(run.other) : undefined;
        };
        const seen = await takeover();
        const { affected } = await zombie;
        if (seen === undefined) continue; // its lease row was locked: the park was first and is through
        assert.deepEqual(await lane.readyIds(), seen, 'what the new owner read as ready stays ready');
        assert.equal(affected + seen.length, messages.length);
      }
    });

    it('B2: lets no repark of an old epoch commit after a takeover', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const lane = await run.lane();
        await lane.parked({ key: null });
        const { messages } = await lane.take();
        const old = lane.leases;
        await run.store.giveBack(run.owner, old);
        const zombie = run.store.repark(
          run.owner,
          old,
          messages.map((m) => repark(m, { state: 'dead', delay: null })),
        );
        await run.other.acquire({ owner: randomUUID(), transport: lane.transport, leaseMs: 60_000, limit: 1000 });
        assert.equal((await zombie).affected, 0);
      }
    });

    it('writes nothing of a life that a requeue has ended, when it comes late', async () => {
      const lane = await run.lane();
      const id = await lane.parked({}, { attempts: 2 });
      const take = async (): Promise<OutboxMessage> => ((await lane.take()).messages as [OutboxMessage])[0];
      const former = repark(await take(), { state: 'dead', attempts: 3, delay: null });
      const write = async (entry: ReparkEntry) => (await run.store.repark(run.owner, lane.leases, [entry])).affected;
      assert.equal(await write(former), 1);
      assert.deepEqual((await run.store.requeue({ ids: [id], limit: 1 })).done, [id]);
      const again = await take();
      assert.equal(again.attempts, 0);
      assert.equal(await write(former), 0);
      assert.equal(await write(repark(again)), 1);
      assert.equal((await take()).attempts, 1);
    });

    it('cancels or sends, never both', async () => {
      const outcomes = new Set<string>();
      for (let round = 0; round < ROUNDS; round++) {
        const lane = await run.lane();
        const [id] = (await lane.insert({ delay: 0, key: round % 2 ? 'k' : null })) as [string];
        const [taken, cancelled] = await Promise.all([lane.take(), run.other.cancel({ ids: [id], limit: 1 })]);
        const sent = taken.messages.length === 1;
        outcomes.add(sent ? 'sent' : 'cancelled');
        assert.deepEqual(
          cancelled,
          sent
            ? { done: [], tooLate: [id], notFound: [], left: 0 }
            : { done: [id], tooLate: [], notFound: [], left: 0 },
        );
      }
      assert.ok(outcomes.size > 0);
    });

    it('O5: cancels what is ready, or its owner, no longer idle, reads it; never both', async () => {
      const outcomes = new Set<string>();
      for (let round = 0; round < ROUNDS; round++) {
        const lane = await run.lane();
        const ids = await lane.insert({ key: null }, { key: null });
        await run.store.noteIdle(run.owner, lane.leases, true);
        const read = async () => {
          if (round % 2) await lane.ready(); // as long as it takes the other to look for them
          await run.store.noteIdle(run.owner, lane.leases, false);
          return lane.readyIds();
        };
        const [found, { done, tooLate }] = await Promise.all([read(), run.other.cancel({ ids, limit: 10 })]);
        outcomes.add(found.length === 0 ? 'cancelled' : 'read');
        assert.deepEqual([...found, ...done].sort(), [...ids].sort());
        assert.deepEqual([...tooLate].sort(), [...found].sort());
      }
      assert.ok(outcomes.size > 0);
    });

    it('settles a message while the next owner parks it', async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const lane = await run.lane();
        await lane.insert({}, {});
        const messages = await lane.ready();
        const [parked, settled] = await Promise.all([
          lane.park(messages, { state: 'blocked', delay: null }),
          run.other.settle(
            lane.transport,
            messages.map(({ id, bucket, seq }) => ({ id, bucket, seq, attempts: 0, parkedId: null })),
            round % 2 ? 'archive' : 'delete',
          ),
        ]);
        assert.equal(settled.affected, 2, `parked ${parked.affected}`);
        assert.deepEqual(await lane.ready(), []);
        assert.deepEqual(await run.store.blockingKeys(lane.transport, lane.allBuckets, 10), []);
      }
    });

    it('settles a message once, whoever says so', async () => {
      for (let round = 0; round < ROUNDS / 2; round++) {
        const lane = await run.lane();
        await lane.insert({}, {}, {});
        const messages = (await lane.ready()).map(({ id, bucket, seq }) => ({
          id,
          bucket,
          seq,
          attempts: 0,
          parkedId: null,
        }));
        const reports = await Promise.all(
          [run.store, run.other].map((store) => store.settle(lane.transport, messages, 'archive')),
        );
        assert.equal(
          reports.reduce((sum, { affected }) => sum + affected, 0),
          3,
        );
      }
    });
  });
}

/** Between the look at what is due and the taking of it: it was found without a key, and holds one now. */
function describeRequeuedMeanwhile(run: StoreRun): void {
  const takeRequeued = async (lane: Lane, id: string): Promise<string[]> => {
    const due = (await lane.due()).rows;
    assert.deepEqual((await run.other.requeue({ ids: [id], limit: 1 })).done, [id]);
    const { transport, leases } = lane;
    const taken = await run.store.take({ owner: run.owner, transport, leases, due, keys: [], perKey: 1 });
    return taken.messages.map((message) => message.id);
  };

  run.runner.it('takes what an operator requeued since it was found due', async () => {
    const lane = await run.lane();
    const id = await lane.parked({}, { blocks: false });
    assert.deepEqual(await takeRequeued(lane, id), [id]);
  });

  run.inOrder('but not if it stands behind an earlier one of its key', async () => {
    const lane = await run.lane();
    const [first, second] = (await lane.insert({}, {})) as [string, string];
    const [dead, later] = (await lane.ready()) as [OutboxMessage, OutboxMessage];
    await lane.park([dead], { state: 'dead', delay: null });
    await lane.park([later], { blocks: false });
    assert.deepEqual(await takeRequeued(lane, second), []);
    await run.other.discard({ ids: [first], limit: 1 });
    assert.deepEqual(
      (await lane.take()).messages.map(({ id }) => id),
      [second],
    );
  });
}
