import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { NewMessage, OutboxMessage } from '../../outbox-message.js';
import type { DeadLetter, LockedOutcome } from '../../store/parked-store.js';
import { settled, type OwnedTransport, type StoreRun } from './harness.js';

const LATER = 3_600_000;
const NOTHING: LockedOutcome = { published: [], parked: [], reparked: [] };

/** Two rows of one id and transport, as two replays of one window make them. */
async function copies(owned: OwnedTransport, fields: Partial<NewMessage> = {}): Promise<string> {
  const id = randomUUID();
  await owned.insert({ id, key: null, ...fields });
  await owned.insert({ id, key: null, ...fields });
  return id;
}

/** The same, and both failed. */
async function parkedCopies(owned: OwnedTransport, state: 'dead' | 'waiting' = 'dead'): Promise<string> {
  const id = await copies(owned);
  const ready = (await owned.ready()).filter((message) => message.id === id);
  await owned.park(ready, { state, delay: state === 'dead' ? null : 0 });
  return id;
}

/** An id is no name of a row: a message may wait several times under its own. */
export function describeCopies(run: StoreRun): void {
  const { describe } = run.runner;
  describe('copies of one message', () => {
    describeParking(run);
    describeActions(run);
    describeLooks(run);
  });
}

function describeParking(run: StoreRun): void {
  const { it } = run.runner;
  const numbersOf = (messages: readonly OutboxMessage[]): string[] => messages.map(({ seq }) => seq);

  it('are parked side by side, at once and one after the other, and each is settled by itself', async () => {
    const owned = await run.owned();
    const id = await copies(owned);
    const [first, second] = (await owned.ready()) as [OutboxMessage, OutboxMessage];
    assert.equal((await owned.park([first])).affected, 1);
    assert.equal((await owned.park([second])).affected, 1);
    const { messages } = await owned.take();
    assert.deepEqual(numbersOf(messages), [first.seq, second.seq]);
    assert.equal((await owned.settle(messages.slice(1))).affected, 1);
    assert.deepEqual((await run.operator.discard({ ids: [id] })).tooLate, [id]); // it is being sent
    assert.equal((await owned.settle(messages, 'archive')).affected, 1);
    await parkedCopies(owned, 'waiting');
    assert.equal((await owned.settle((await owned.take()).messages)).affected, 2);
  });

  it('that a new owner parked are settled by who published one of them', async () => {
    const owned = await run.owned();
    await copies(owned);
    const ready = await owned.ready();
    await owned.park(ready, { state: 'waiting', delay: LATER });
    assert.equal((await owned.settle(ready.slice(0, 1))).affected, 1);
    assert.equal((await owned.settle(ready.slice(0, 1))).affected, 0);
    assert.equal((await owned.settle(ready)).affected, 1);
  });

  it('keep nobody waiting who publishes one of them under a lock', async () => {
    const owned = await run.owned({ leased: false });
    await copies(owned, { delay: 0 });
    const request = { transport: owned.transport, limit: 1, onPublished: 'delete' } as const;
    const publish = async (store: typeof run.store, meanwhile = async (): Promise<void> => undefined) => {
      const report = await store.rowLocks.withLockedRows(request, async (messages) => {
        await meanwhile();
        return { ...NOTHING, published: messages.map(settled) };
      });
      assert.equal(report.locked, 1);
    };
    await publish(run.store, () => publish(run.other));
    assert.equal((await run.store.rowLocks.withLockedRows(request, async () => NOTHING)).locked, 0);
  });
}

function describeActions(run: StoreRun): void {
  const { it } = run.runner;

  it('are all requeued and discarded by their id', async () => {
    const owned = await run.owned();
    const id = await parkedCopies(owned);
    assert.deepEqual(await run.operator.requeue({ ids: [id] }), report([id]));
    const { messages } = await owned.take();
    assert.deepEqual(
      messages.map(({ id: of, attempts }) => [of, attempts]),
      Array(2).fill([id, 0]),
    );
    await owned.settle(messages);
    await parkedCopies(owned);
    const [dead] = (await run.store.parked.unannouncedDead([owned.transport], 10)) as [DeadLetter, DeadLetter];
    assert.deepEqual(await run.operator.discard({ ids: [dead.message.id] }), report([dead.message.id]));
    assert.deepEqual((await run.operator.discard({ ids: [dead.message.id] })).notFound, [dead.message.id]);
  });

  it('that are scheduled are cancelled by their id', async () => {
    const owned = await run.owned();
    const id = await copies(owned, { delay: LATER });
    assert.deepEqual(await run.operator.cancel({ ids: [id] }), report([id]));
    assert.deepEqual((await run.operator.cancel({ ids: [id] })).notFound, [id]);
  });

  run.asking(it)('are each a row of what operators do to many', async ({ operators, inspect }) => {
    const owned = await run.owned();
    const id = await parkedCopies(owned);
    const { rows } = await inspect.find({ state: 'parked', ids: [id], after: null, limit: 10 });
    assert.equal(rows.length, 2);
    const audit = await operators.begin({ action: 'requeue', actor: 'a', filter: '{}' });
    const step = { do: 'requeue', states: ['dead'], rows: rows.slice(1) } as const;
    assert.deepEqual((await operators.step(audit, step))?.ids, [id]);
    assert.deepEqual(
      (await owned.take()).messages.map(({ seq }) => seq),
      rows.slice(1).map(({ seq }) => seq),
    );
  });
}

function describeLooks(run: StoreRun): void {
  const it = run.asking(run.runner.it);

  it('are all shown by their id, in the order of their numbers', async ({ inspect }) => {
    const owned = await run.owned();
    const id = await parkedCopies(owned);
    await owned.insert({ id, key: null });
    const { rows } = await inspect.byIds([id]);
    assert.deepEqual(rows.map(({ state }) => state).sort(), ['dead', 'dead', 'ready']);
    const dead = rows.filter(({ state }) => state === 'dead').map(({ rowId }) => rowId as string);
    assert.equal(new Set(dead).size, 2);
    const parked = await inspect.find({ state: 'parked', ids: [id], after: null, limit: 10 });
    assert.deepEqual(
      parked.rows.map(({ rowId }) => rowId),
      dead.sort((one, other) => Number(one) - Number(other)),
    );
  });
}

/** Of both copies. */
const report = (changed: string[]): object => ({ done: 2, changed, tooLate: [], notFound: [] });
