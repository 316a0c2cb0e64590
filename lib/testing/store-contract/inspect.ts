import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { uuidV7 } from '../../message/uuid-v7.js';
import type { InspectStore, RowRequest, StoredRow, StoredState } from '../../store/inspect-store.js';
import { idsOf, type OwnedTransport, type StoreRun } from './harness.js';

const LATER = 3_600_000;
type Filter = Omit<RowRequest, 'state' | 'after' | 'limit' | 'transport'>;

/** What people ask about messages. A store without `inspect` has no `OutboxAdmin`. */
export function describeInspect(run: StoreRun): void {
  const { describe } = run.runner;
  describe('inspect', () => {
    describePages(run);
    describeById(run);
    describeSurroundings(run);
    describeRest(run);
    describeFailures(run);
  });
}

/** All rows of a state, in pages of this size. */
async function walked(
  inspect: InspectStore,
  { transport }: OwnedTransport,
  state: StoredState,
  limit = 2,
  filter: Filter = {},
): Promise<StoredRow[]> {
  const rows: StoredRow[] = [];
  for (let after: string | null = null, pages = 0; ; pages++) {
    const page = await inspect.find({ ...filter, state, transport, after, limit });
    assert.ok(page.rows.length <= limit && pages < 100);
    rows.push(...page.rows);
    if (page.next === null) return rows;
    after = page.next;
  }
}
const sortedIds = (rows: readonly StoredRow[]): string[] => idsOf(rows).sort();

async function archived(owned: OwnedTransport, ...ids: readonly string[]): Promise<void> {
  const messages = (await owned.ready()).filter(({ id }) => ids.includes(id));
  await owned.settle(messages, 'archive');
}

function describePages(run: StoreRun): void {
  const it = run.asking(run.runner.it);

  it('lists the rows of each state page by page, each once', async ({ inspect }) => {
    const owned = await run.owned();
    const key = randomUUID();
    const place = { key, bucket: run.bucketOf(key) };
    const many = (fields: object) => Promise.all(Array.from({ length: 5 }, () => owned.parked(place, fields)));
    const [dead, waiting] = [await many({ state: 'dead', delay: null }), await many({ delay: LATER })];
    const blocked = run.ordered ? await many({ state: 'blocked', delay: null }) : [];
    const scheduled = await owned.insert(...Array.from({ length: 5 }, () => ({ ...place, delay: LATER })));
    const published = await owned.insert(...Array.from({ length: 5 }, () => place));
    await archived(owned, ...published);
    const ready = await owned.insert(...Array.from({ length: 3 }, (_, bucket) => ({ key: null, bucket })), place);
    const ofTheKey = ready.slice(3);
    for (const [state, ids] of Object.entries({ dead, waiting, blocked, scheduled, published, ready })) {
      for (const limit of [2, 500])
        assert.deepEqual(
          sortedIds(await walked(inspect, owned, state as StoredState, limit)),
          ids.sort(),
          `${state} ${limit}`,
        );
      const ofKey = await walked(inspect, owned, state as StoredState, 2, { key });
      assert.deepEqual(sortedIds(ofKey), state === 'ready' ? ofTheKey : ids.sort(), `${state} of the key`);
      assert.ok(ofKey.every((row) => row.state === state && row.key === key));
    }
  });

  it('lists what is ready in the order of its numbers, whatever the bucket', async ({ inspect }) => {
    const owned = await run.owned();
    const ids = await owned.insert(...[3, 1, 2, 1, 3].map((bucket) => ({ key: null, bucket })));
    assert.deepEqual(idsOf(await walked(inspect, owned, 'ready')), ids);
  });

  it('finds by type, topic and age, and tells the texts as they are', async ({ inspect }) => {
    const owned = await run.owned();
    const fields = { topic: 'Orders ', type: `it's "Ünique" \\`, key: `k'"\\ ` };
    const [id] = await owned.insert(
      { ...fields, bucket: run.bucketOf(fields.key) },
      { topic: 'orders' },
      { type: 'other' },
    );
    const found = async (filter: Filter) => sortedIds(await walked(inspect, owned, 'ready', 500, filter));
    assert.deepEqual(await found({ topic: fields.topic }), [id]);
    assert.deepEqual(await found({ type: fields.type }), [id]);
    assert.deepEqual(await found({ key: fields.key }), [id]);
    assert.deepEqual(await found({ ...fields, youngerThan: LATER }), [id]);
    assert.deepEqual(await found({ topic: 'ORDERS' }), []);
    assert.deepEqual(await found({ olderThan: LATER }), []);
    assert.equal((await found({ youngerThan: LATER, olderThan: 0 })).length, 3);
    const [row] = await walked(inspect, owned, 'ready', 1, fields);
    assert.deepEqual(
      [row?.topic, row?.type, row?.key, row?.contentType],
      [...Object.values(fields), 'application/json'],
    );
    assert.ok(Math.abs((row?.createdAt?.getTime() ?? 0) - Date.now()) < 600_000);
  });

  it('refuses a position that it did not write', async ({ inspect }) => {
    const { transport } = await run.owned({ leased: false });
    for (const after of ['', '[]', '["1; select 1"]', '{}', '["x","y","z"]'])
      await assert.rejects(inspect.find({ state: 'ready', transport, after, limit: 1 }), { code: 'INVALID_MESSAGE' });
  });
}

function describeById(run: StoreRun): void {
  const it = run.asking(run.runner.it);

  it('finds messages by their ids, wherever they are', async ({ inspect }) => {
    const [owned, twin] = [await run.owned(), await run.owned()];
    const named = (id: string, fields: object = {}) => ({ id, key: null, ...fields });
    const [ready, published, scheduled, nowhere] = [uuidV7(), uuidV7(), randomUUID(), uuidV7()];
    await owned.insert(named(ready), named(published), named(scheduled, { delay: LATER }));
    await archived(owned, published);
    const dead = await owned.parked({ key: null }, { state: 'dead', delay: null, attempts: 7, error: 'no' });
    await twin.insert(named(ready));
    const { rows, isComplete } = await inspect.byIds([ready, published, scheduled, dead, nowhere]);
    assert.equal(isComplete, true);
    const states = rows.map(({ id, transport, state }) => `${id} ${transport} ${state}`).sort();
    const of = (id: string, state: string, { transport } = owned) => `${id} ${transport} ${state}`;
    const expected = [
      of(ready, 'ready'),
      of(ready, 'ready', twin),
      of(published, 'published'),
      of(scheduled, 'scheduled'),
    ];
    assert.deepEqual(states, [...expected, of(dead, 'dead')].sort());
    const found = rows.find(({ id }) => id === dead);
    assert.deepEqual([found?.attempts, found?.lastError, found?.dueAt], [7, 'no', null]);
    assert.ok(found?.diedAt instanceof Date);
    assert.ok((rows.find(({ id }) => id === scheduled)?.dueAt?.getTime() ?? 0) > Date.now() + LATER / 2);
  });

  it('shows what the caller wrote, and no more of the payload than is asked for', async ({ inspect }) => {
    const owned = await run.owned();
    const payload = Buffer.from([0, 255, 1, 2, 3, 4]);
    const content = { payload, headers: '{"a":"b"}', options: '{"kafka":{"partition":1}}', key: null };
    const published = (await owned.insert(content)) as [string];
    await archived(owned, ...published);
    const parked = await owned.parked(content, { state: 'dead', delay: null });
    const ids = [...published, parked, ...(await owned.insert(content, { ...content, payload: null }))];
    for (const [n, id] of ids.entries()) {
      const [row] = (await inspect.byIds([id])).rows as [StoredRow];
      const found = await inspect.content(row, 4);
      const size = n === 3 ? null : 6;
      assert.deepEqual(
        [found?.headers, found?.options, found?.payloadBytes],
        [content.headers, content.options, size],
        row.state,
      );
      assert.deepEqual(found?.preview, n === 3 ? null : payload.subarray(0, 4));
    }
    const [row] = (await inspect.byIds([parked])).rows as [StoredRow];
    await run.operator.discard({ ids: [parked] });
    assert.equal(await inspect.content(row, 0), undefined);
  });
}

function describeSurroundings(run: StoreRun): void {
  const it = run.asking(run.runner.it);
  const inOrder = run.asking(run.inOrder);
  const one = async (id: string): Promise<StoredRow> => (await run.store.inspect?.byIds([id]))?.rows[0] as StoredRow;

  it('says whose lease the bucket has, and what is before a message', async ({ inspect }) => {
    const owned = await run.owned({ leased: false });
    const ids = await owned.insert(...[1, 2, 1, 1].map((bucket) => ({ key: null, bucket })));
    const last = await one(ids[3] as string);
    const free = await inspect.surroundings(last);
    assert.deepEqual([free.ahead, free.blocker, free.lease?.isLive], [2, null, false]);
    await owned.acquire(run.store, 60_000);
    const held = await inspect.surroundings(last);
    const { epoch } = owned.leases.find(({ bucket }) => bucket === 1) as { epoch: string };
    assert.deepEqual(
      { ...held.lease, expiresAt: null },
      { owner: run.owner, epoch, isLive: true, trial: null, expiresAt: null },
    );
    assert.ok((held.lease?.expiresAt?.getTime() ?? 0) > held.now.getTime());
  });

  inOrder('names the message of the key that blocks, and the epoch in which one is sent', async ({ inspect }) => {
    const owned = await run.owned();
    await owned.insert({ key: 'a' }, { key: 'a' }, { key: 'b' }, { key: 'a' });
    const [first, second, other, last] = await owned.ready();
    await owned.park([first] as never, { state: 'waiting', delay: 0, error: 'no' });
    await owned.park([second] as never, { state: 'blocked', delay: null });
    const blockerOf = async (id: string | undefined) =>
      (await inspect.surroundings(await one(id as string))).blocker?.id;
    assert.equal(await blockerOf(first?.id), undefined);
    assert.equal(await blockerOf(second?.id), first?.id);
    assert.equal(await blockerOf(last?.id), first?.id);
    assert.equal(await blockerOf(other?.id), undefined);
    const { messages } = await owned.take();
    assert.equal(messages[0]?.id, first?.id);
    const { epoch } = owned.leases.find(({ bucket }) => bucket === 1) as { epoch: string };
    assert.equal((await one(first?.id as string)).sendingEpoch, epoch);
    await owned.repark(messages, { state: 'dead', delay: null });
    assert.deepEqual((await inspect.surroundings(await one(last?.id as string))).blocker?.state, 'dead');
  });

  it('counts open transactions, where the database tells', async () => {
    const owned = await run.owned({ leased: false });
    const open = await run.harness.begin();
    await run.store.writer.insert(open.tx, [owned.message()]);
    const count = await run.store.diagnose?.ask('openTransactions');
    await open.rollback();
    assert.ok(count === undefined || count >= 1);
  });

  it('lists the buckets with their leases and what is ready in them', async ({ inspect }) => {
    const owned = await run.owned({ leased: false });
    await owned.insert(...[1, 2, 1].map((bucket) => ({ key: null, bucket })));
    const free = await inspect.buckets(owned.transport);
    assert.deepEqual(
      free.map(({ bucket }) => bucket),
      owned.allBuckets,
    );
    assert.deepEqual(free.map(({ ready }) => ready).slice(0, 4), [0, 2, 1, 0]);
    assert.ok(free.every(({ lease, transport }) => lease?.isLive === false && transport === owned.transport));
    assert.ok(free[1]?.oldestReadyAt instanceof Date && free[0]?.oldestReadyAt === null);
    await owned.acquire(run.store, 60_000);
    const all = await inspect.buckets();
    const held = all.filter(({ transport }) => transport === owned.transport);
    assert.ok(all.length > held.length || all.length === owned.allBuckets.length);
    assert.ok(held.every(({ lease }) => lease?.isLive === true && lease.owner === run.owner));
  });
}

function describeRest(run: StoreRun): void {
  run.asking(run.runner.it)(
    'says which buckets have ready rows up to a number, of each transport',
    async ({ inspect }) => {
      const owned = await run.owned();
      const [bucket = 0, other = 0] = owned.allBuckets.slice(-2);
      const first = await owned.insert({ key: null, bucket }, { key: null, bucket: other }, { key: null, bucket });
      const [last] = (await inspect.find({ state: 'ready', after: null, limit: 1, backwards: true })).rows;
      assert.equal(last?.id, first[2]);
      await owned.insert({ key: null, bucket }, { key: null, bucket: other });
      const rows = (await owned.ready()).filter(({ id }) => first.includes(id));
      const rest = async (transport?: number) =>
        (await inspect.buckets(transport, last?.seq)).filter(
          (row) => row.ready > 0 && row.transport === owned.transport,
        );
      const of = (place: number) => rows.filter((row) => row.bucket === place).map(({ seq }) => seq);
      const expected = [...new Set([bucket, other])].sort((a, b) => a - b);
      for (const transport of [owned.transport, undefined])
        assert.deepEqual(
          (await rest(transport)).map((row) => [row.bucket, row.first, row.ready]),
          expected.map((place) => [place, of(place)[0], of(place).length]),
        );
      await owned.settle(rows, 'delete');
      assert.deepEqual(await rest(owned.transport), []);
    },
  );
}

function describeFailures(run: StoreRun): void {
  run.asking(run.runner.it)('groups failures by their text, among a bounded number of rows', async ({ inspect }) => {
    const owned = await run.owned();
    const { transport } = owned;
    const fail = (topic: string, entry: object) => owned.parked({ key: null, topic }, entry);
    const dead = { state: 'dead', delay: null, error: `no 'x' ü` };
    const ids = [await fail('a', dead), await fail('a', dead), await fail('b', { ...dead, error: null })];
    await fail('a', { delay: LATER, error: 'wait' });
    await owned.insert({ key: null, delay: LATER });
    const states = ['dead', 'waiting'] as const;
    const asked = async (fields: object = {}) => inspect.failures({ transport, states, look: 1_000, ...fields });
    const { rows, cut } = await asked();
    const shape = rows.map(({ topic, error, state, count }) => `${topic} ${state} ${count} ${error}`).sort();
    assert.deepEqual([shape, cut], [[`a dead 2 no 'x' ü`, 'a waiting 1 wait', 'b dead 1 '], false]);
    const group = rows.find(({ count }) => count === 2);
    assert.ok(ids.slice(0, 2).includes(group?.exampleId as string));
    assert.ok((group?.firstSeen as Date) <= (group?.lastSeen as Date));
    assert.deepEqual(
      (await asked({ topic: 'b' })).rows.map(({ topic }) => topic),
      ['b'],
    );
    assert.deepEqual(
      (await asked({ states: ['waiting'] })).rows.map(({ state }) => state),
      ['waiting'],
    );
    const few = await asked({ look: 2, states: ['dead'] });
    assert.deepEqual([few.looked, few.cut], [2, true]);
    assert.deepEqual((await asked({ type: 'none' })).rows, []);
  });
}
