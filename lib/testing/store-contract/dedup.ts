import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { NewMessage } from '../../outbox-message.js';
import { OutboxTransactionConflictError } from '../../outbox.errors.js';
import { eventually, Operator, type Named, type OwnedTransport, type StoreRun } from './harness.js';

const LATER = 3_600_000;
const ROUNDS = 5;
const WRITERS = 3;

/** A dedup key ends with what `cancel` and `discard` delete: the next message with it is written. */
export function describeDedupKeys(run: StoreRun): void {
  const { describe, it } = run.runner;
  describe('dedup keys of what is deleted', () => {
    describeOneTransport(run);
    describeSeveralTransports(run);

    for (const [state, delay] of [
      ['scheduled', LATER],
      ['ready', null],
    ] as const) {
      it(`O4: a transaction that found the key taken keeps nobody from cancelling, and the key is free when it has ended: ${state}`, async () => {
        const owned = await run.owned({ leased: false });
        const dedupKey = randomUUID();
        const [id] = (await owned.insert({ dedupKey, delay })) as [string];
        const open = await run.harness.begin();
        const { duplicates } = await run.store.writer.insert(open.tx, [owned.message({ dedupKey })]);
        assert.deepEqual([...duplicates.values()], [id]);
        const cancelled = run.operator.cancel({ ids: [id] });
        // By a question that a busy server answers at once: the key is waited for, and not for long.
        await eventually('its row is deleted', async () => {
          const { nextIn } = await run.store.parked.due(owned.transport, [1], 1);
          return (nextIn === null && (await owned.readyIds()).length === 0) || undefined;
        });
        await open.commit();
        assert.deepEqual((await cancelled).changed, [id]);
        assert.equal(await holderOf(owned, dedupKey), undefined);
      });
    }

    it('O4: cancelled while others enqueue with the key: each is told of a message that is there, or writes one, and none fails', async () => {
      const owned = await run.owned();
      for (let round = 0; round < ROUNDS; round++) await cancelAmongEnqueues(owned);
    });
  });
}

function describeOneTransport(run: StoreRun): void {
  const { it } = run.runner;
  const remove = (how: 'cancel' | 'discard', named: Named) => run.operator[how](named);

  for (const how of ['cancel', 'discard'] as const) {
    for (const state of ['waiting', 'blocked', 'dead'] as const) {
      it(`O4: ${how} of a ${state} message frees its key, and no other one`, async () => {
        const owned = await run.owned();
        const [dedupKey, other] = [randomUUID(), randomUUID()];
        const entry = state === 'waiting' ? { state, delay: LATER } : { state, delay: null };
        const id = await owned.parked({ dedupKey, key: null }, entry);
        const neighbour = await owned.parked({ dedupKey: other, key: null }, entry);
        assert.equal(await holderOf(owned, dedupKey), id);
        assert.deepEqual((await remove(how, { ids: [id] })).changed, [id]);
        assert.equal(await holderOf(owned, dedupKey), undefined);
        assert.equal(await holderOf(owned, other), neighbour);
      });
    }
  }

  it('O4: cancel of scheduled messages frees their keys, whatever the filter', async () => {
    const owned = await run.owned();
    const dedupKeys = Array.from({ length: 3 }, () => randomUUID());
    const topic = randomUUID();
    await owned.insert(...dedupKeys.map((dedupKey) => ({ dedupKey, topic, delay: LATER })), { topic, delay: LATER });
    assert.equal((await remove('cancel', { topic, state: 'scheduled' })).done, 4);
    for (const dedupKey of dedupKeys) assert.equal(await holderOf(owned, dedupKey), undefined);
  });

  it('O4: cancel of what is ready frees its key with it, and keeps the key of what it comes too late for', async () => {
    const owned = await run.owned({ leased: false });
    const [dedupKey, late] = [randomUUID(), randomUUID()];
    const [id] = (await owned.insert({ dedupKey })) as [string];
    assert.deepEqual((await remove('cancel', { ids: [id] })).changed, [id]);
    assert.equal(await holderOf(owned, dedupKey), undefined);
    const [second] = (await owned.insert({ dedupKey: late })) as [string];
    await owned.acquire(run.store, 60_000);
    assert.deepEqual((await remove('cancel', { ids: [second] })).tooLate, [second]);
    assert.equal(await holderOf(owned, late), second);
  });

  it('O4: a message that was published keeps its key', async () => {
    const owned = await run.owned();
    const dedupKey = randomUUID();
    const [id] = (await owned.insert({ dedupKey })) as [string];
    await owned.settle(await owned.ready(), 'archive');
    assert.deepEqual((await remove('cancel', { ids: [id] })).notFound, [id]);
    assert.equal(await holderOf(owned, dedupKey), id);
  });
}

function describeSeveralTransports(run: StoreRun): void {
  const { it } = run.runner;
  /** One message, on its way to two transports. */
  async function both(
    fields: Partial<NewMessage>,
  ): Promise<{ one: OwnedTransport; two: OwnedTransport; id: string; dedupKey: string }> {
    const [one, two] = [await run.owned(), await run.owned()];
    const [id, dedupKey] = [randomUUID(), randomUUID()];
    const rows = [one, two].map((owned) => owned.message({ id, dedupKey, key: null, ...fields }));
    await run.committed((tx) => run.store.writer.insert(tx, rows));
    return { one, two, id, dedupKey };
  }

  for (const state of ['ready', 'scheduled', 'waiting'] as const) {
    it(`O4: keeps the key while another transport has the message, ${state}`, async () => {
      const { one, two, id, dedupKey } = await both(state === 'scheduled' ? { delay: LATER } : {});
      if (state !== 'scheduled') await one.park(await one.ready(), { delay: LATER });
      if (state === 'waiting') await two.park(await two.ready(), { delay: LATER });
      const cancel = ({ transport }: OwnedTransport) => run.operator.cancel({ ids: [id], transport });
      assert.deepEqual((await cancel(one)).changed, [id]);
      assert.equal(await holderOf(one, dedupKey), id);
      if (state === 'ready') await two.park(await two.ready(), { delay: LATER });
      assert.deepEqual((await cancel(two)).changed, [id]);
      assert.equal(await holderOf(one, dedupKey), undefined);
    });
  }

  it('O4: frees the key with the last row that waits, whatever others have published', async () => {
    const { one, two, id, dedupKey } = await both({});
    await one.park(await one.ready(), { state: 'dead', delay: null });
    await two.settle(await two.ready(), 'archive');
    assert.deepEqual((await run.operator.discard({ ids: [id] })).changed, [id]);
    assert.equal(await holderOf(one, dedupKey), undefined);
  });

  it('O4: two cancellations at once, one for each transport, free the key', async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const { one, two, id, dedupKey } = await both({ delay: LATER });
      const cancel = ({ transport }: OwnedTransport, i: number) =>
        (i === 0 ? new Operator(run.store, run.harness.settings) : run.operator).cancel({ ids: [id], transport });
      const reports = await Promise.all([one, two].map(cancel));
      assert.deepEqual(
        reports.map(({ changed }) => changed),
        [[id], [id]],
      );
      assert.equal(await holderOf(one, dedupKey), undefined);
    }
  });
}

/** Who has the key, as an enqueue is told that writes nothing. */
async function holderOf(owned: OwnedTransport, dedupKey: string): Promise<string | undefined> {
  const transaction = await owned.run.harness.begin();
  try {
    const { duplicates } = await owned.store.writer.insert(transaction.tx, [owned.message({ dedupKey })]);
    return duplicates.get(0);
  } finally {
    await transaction.rollback();
  }
}

/** Runs it again, as an application does that is told of a conflict: of those who wait for each other one gets through each time. */
async function afterConflicts<T>(transaction: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await transaction();
    } catch (error) {
      if (!(error instanceof OutboxTransactionConflictError)) throw error;
    }
  }
}

async function cancelAmongEnqueues(owned: OwnedTransport): Promise<void> {
  const { run } = owned;
  const dedupKey = randomUUID();
  const [first] = (await owned.insert({ dedupKey, delay: LATER })) as [string];
  const enqueue = async (): Promise<{ id: string; holder: string | undefined }> => {
    const message = owned.message({ dedupKey, delay: LATER });
    const write = () => run.committed((tx) => run.store.writer.insert(tx, [message]));
    const { duplicates } = await (run.harness.dedupConflicts === true ? afterConflicts(write) : write());
    return { id: message.id, holder: duplicates.get(0) };
  };
  let isCancelled = false;
  const cancelled = run.operator.cancel({ ids: [first] }).finally(() => (isCancelled = true));
  const writers = Array.from({ length: WRITERS }, async () => {
    const results = [await enqueue()];
    while (!isCancelled) results.push(await enqueue());
    return results;
  });
  const [{ changed }, enqueued] = await Promise.all([cancelled, Promise.all(writers).then((all) => all.flat())]);
  assert.deepEqual(changed, [first]);
  const written = enqueued.filter(({ holder }) => holder === undefined).map(({ id }) => id);
  assert.ok(written.length <= 1, 'one message has a key');
  for (const { holder } of enqueued) assert.ok([undefined, first, ...written].includes(holder));
  assert.equal(await holderOf(owned, dedupKey), written[0]);
  for (const id of written) assert.deepEqual((await run.operator.cancel({ ids: [id] })).changed, written);
}
