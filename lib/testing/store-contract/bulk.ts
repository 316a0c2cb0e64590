import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import type { ParkedState } from '../../outbox-message.js';
import type { Bounds, InspectStore, RowPage, RowRequest, StoredRow } from '../../store/inspect-store.js';
import type { AuditRow, OperatorStore, Step } from '../../store/operator-store.js';
import { idsOf, type OwnedTransport, type StoreRun } from './harness.js';

const LATER = 3_600_000;
const ACTION = { action: 'requeue', actor: `o'brien "ops"@höst \\`, filter: '{"state":"dead","key":"ключ"}' } as const;
const DEAD = ['dead'] as const;

/** Actions of operators, chunk by chunk, and what is written down of them. A store without `operators` has none. */
export function describeBulk(run: StoreRun): void {
  const { describe } = run.runner;
  describe('bulk', () => {
    describeWalks(run);
    describeChanges(run);
    describeReady(run);
    describeFences(run);
    describeAudit(run);
  });
}

/** All parked rows that a filter means, in pages of two. */
async function walked(
  inspect: InspectStore,
  { states = DEAD, ...filter }: Partial<RowRequest> & { states?: readonly ParkedState[] },
  more: { backwards?: boolean; bounds?: Bounds } = {},
): Promise<StoredRow[]> {
  const { backwards = false, bounds = await inspect.bounds() } = more;
  const parked = { states, bounds };
  const rows: StoredRow[] = [];
  for (let after: string | null = null, pages = 0; ; pages++) {
    const page: RowPage = await inspect.find({ ...filter, state: 'parked', parked, after, backwards, limit: 2 });
    assert.ok(page.rows.length <= 2 && pages < 100);
    rows.push(...page.rows);
    if (page.next === null) return rows;
    after = page.next;
  }
}
const dead = (owned: OwnedTransport, fields: object = {}): Promise<string> =>
  owned.parked({ key: null, ...fields }, { state: 'dead', delay: null });

async function many<T>(count: number, each: (n: number) => Promise<T>): Promise<T[]> {
  const all: T[] = [];
  for (let n = 0; n < count; n++) all.push(await each(n));
  return all;
}
async function audited(operators: OperatorStore, id: string): Promise<AuditRow | undefined> {
  return (await operators.audit({ before: null, limit: 500 })).find((row) => row.id === id);
}
const countsOf = async (operators: OperatorStore, id: string): Promise<unknown[]> => {
  const row = await audited(operators, id);
  return [row?.done, row?.skipped];
};

function describeWalks(run: StoreRun): void {
  const it = run.asking(run.runner.it);

  it('finds what a filter means in the order of the rows, from either end, each once', async ({ inspect }) => {
    const owned = await run.owned();
    const { transport } = owned;
    const ids = await many(5, (n) => dead(owned, { type: n % 2 === 0 ? 'even' : 'odd', topic: `it's "Ünique" \\` }));
    const waiting = await owned.parked({ key: null }, { delay: LATER });
    const found = async (filter: Parameters<typeof walked>[1], backwards = false): Promise<string[]> =>
      idsOf(await walked(inspect, { transport, ...filter }, { backwards }));
    assert.deepEqual(await found({}), ids);
    assert.deepEqual(await found({}, true), [...ids].reverse());
    assert.deepEqual(await found({ states: ['waiting'] }), [waiting]);
    assert.deepEqual(await found({ states: ['waiting', 'dead'] }), [...ids, waiting]);
    assert.deepEqual(await found({ states: [] }), []);
    assert.deepEqual(await found({ type: 'odd', topic: `it's "Ünique" \\` }), [ids[1], ids[3]]);
    assert.deepEqual(await found({ topic: 'none' }), []);
    assert.deepEqual(await found({ olderThan: LATER }), []);
    assert.deepEqual(await found({ youngerThan: LATER }), ids);
    assert.deepEqual(await found({ ids: [...ids.slice(1, 4), waiting, randomUUID()] }), ids.slice(1, 4));
    const everywhere = await walked(inspect, {});
    assert.deepEqual(idsOf(everywhere.filter((row) => row.transport === transport)), ids);
  });

  it('comes to an end: what is parked, or dies, after the beginning is not looked at', async ({ inspect }) => {
    const owned = await run.owned();
    const later = await owned.parked({ key: null }, { delay: 0 });
    const ids = await many(3, () => dead(owned));
    const bounds = await inspect.bounds();
    const { messages } = await owned.take();
    await owned.repark(messages, { state: 'dead', delay: null });
    const new_ = await dead(owned);
    const filter = { transport: owned.transport };
    assert.deepEqual(idsOf(await walked(inspect, filter, { bounds })), ids);
    assert.deepEqual(idsOf(await walked(inspect, filter, { bounds, backwards: true })), [...ids].reverse());
    assert.deepEqual(idsOf(await walked(inspect, filter)), [later, ...ids, new_]);
  });
}

/** The ids that a step changes. */
const stepOf = (operators: OperatorStore, audit: string) => async (step: Step) => [
  ...((await operators.step(audit, step))?.ids ?? []),
];

function describeChanges(run: StoreRun): void {
  const it = run.asking(run.runner.it);
  const inOrder = run.asking(run.inOrder);

  it('requeues rows, and counts them in the audit', async ({ operators, inspect }) => {
    const owned = await run.owned();
    const ids = await many(3, () => dead(owned));
    const rows = await walked(inspect, { transport: owned.transport });
    const audit = await operators.begin(ACTION);
    const step = stepOf(operators, audit);
    assert.deepEqual(await step({ do: 'requeue', states: DEAD, rows: rows.slice(0, 2) }), ids.slice(0, 2));
    assert.deepEqual(await step({ do: 'requeue', states: DEAD, rows }), ids.slice(2)); // two are dead no more
    assert.deepEqual(await countsOf(operators, audit), [3, 2]);
    assert.deepEqual(
      (await owned.take()).messages.map(({ id, attempts }) => [id, attempts]).sort(),
      ids.map((id) => [id, 0]).sort(),
    );
  });

  it('leaves what is being sent, and counts it as skipped', async ({ operators, inspect }) => {
    const owned = await run.owned();
    const sending = await owned.parked({ key: null });
    await owned.take();
    const scheduled = (await owned.insert({ key: null, delay: LATER }))[0] as string;
    const states = ['scheduled', 'waiting'] as const;
    const rows = await walked(inspect, { transport: owned.transport, states }, { backwards: true });
    assert.deepEqual(idsOf(rows), [scheduled, sending]);
    const audit = await operators.begin({ ...ACTION, action: 'cancel' });
    const step = stepOf(operators, audit);
    assert.deepEqual(await step({ do: 'cancel', states, rows }), [scheduled]);
    assert.deepEqual(await countsOf(operators, audit), [1, 1]);
    assert.deepEqual(idsOf(await walked(inspect, { transport: owned.transport, states })), [sending]);
  });

  inOrder('releases a key, and counts it', async ({ operators }) => {
    const owned = await run.owned();
    const key = randomUUID();
    const place = { key, bucket: run.bucketOf(key) };
    await dead(owned, place);
    await owned.parked(place, { state: 'blocked', delay: null });
    const audit = await operators.begin({ ...ACTION, action: 'release' });
    const step = { do: 'release', key, transport: owned.transport } as const;
    for (const done of [1, 0]) assert.deepEqual(await operators.step(audit, step), { done, skipped: 0, ids: [] });
    assert.deepEqual(await countsOf(operators, audit), [1, 0]);
  });
}

async function readyRows(run: StoreRun, owned: OwnedTransport): Promise<readonly StoredRow[]> {
  const page = await run.store.inspect?.find({ state: 'ready', transport: owned.transport, after: null, limit: 500 });
  return page?.rows ?? [];
}

function describeReady(run: StoreRun): void {
  const it = run.asking(run.runner.it);

  it('cancels what is ready in buckets that nobody has leased, and nothing else', async ({ operators }) => {
    const owned = await run.owned();
    const ids = await owned.insert(...[1, 2, 1, 3].map((bucket) => ({ key: null, bucket })));
    const audit = await operators.begin({ ...ACTION, action: 'cancel' });
    const step = stepOf(operators, audit);
    assert.deepEqual(await step({ do: 'cancel ready', rows: await readyRows(run, owned) }), []);
    await run.store.leases.giveBack(
      run.owner,
      owned.leases.filter(({ bucket }) => bucket !== 3),
    );
    assert.deepEqual(
      (await step({ do: 'cancel ready', rows: await readyRows(run, owned) })).sort(),
      ids.slice(0, 3).sort(),
    );
    assert.deepEqual(await countsOf(operators, audit), [3, 5]);
    assert.deepEqual(await owned.readyIds(), ids.slice(3));
  });
}

function describeFences(run: StoreRun): void {
  const it = run.asking(run.runner.it);

  it('changes nothing once the action has ended, or its row is gone', async ({ operators, inspect }) => {
    const owned = await run.owned();
    const id = await dead(owned, { key: 'k' });
    const [ready] = await owned.insert({ key: null, bucket: 2 });
    await run.store.leases.giveBack(run.owner, owned.leases);
    const { transport } = owned;
    const rows = await walked(inspect, { transport });
    const audit = await operators.begin(ACTION);
    assert.ok(await run.other.operators?.step(audit, { do: 'end', outcome: 'aborted', error: null }));
    assert.equal(await operators.step(audit, { do: 'end', outcome: 'done', error: null }), undefined);
    for (const gone of [audit, '999999999999']) {
      const steps: Step[] = [
        ...(['requeue', 'discard', 'cancel'] as const).map((change) => ({ do: change, states: DEAD, rows })),
        { do: 'cancel ready', rows: await readyRows(run, owned) },
        { do: 'release', key: 'k', transport },
      ];
      for (const step of steps) assert.equal(await operators.step(gone, step), undefined);
    }
    assert.deepEqual(idsOf(await walked(inspect, { transport })), [id]);
    assert.deepEqual(await owned.readyIds(), [ready]);
    const blocked = await run.store.parked.blockedAmong(transport, [{ bucket: 1, key: 'k' }]);
    assert.equal(blocked.length, run.ordered ? 1 : 0);
    const { outcome, done, error } = (await audited(operators, audit)) as AuditRow;
    assert.deepEqual([outcome, done, error], ['aborted', 0, null]);
  });
}

function describeAudit(run: StoreRun): void {
  const it = run.asking(run.runner.it);

  it('tells what was done, the last first, page by page, with the texts as they are', async ({ operators }) => {
    const [first, second, third] = (await many(3, () => operators.begin(ACTION))) as [string, string, string];
    await operators.step(second, { do: 'end', outcome: 'failed', error: `it's "broken" \\` });
    const page = await operators.audit({ before: null, limit: 2 });
    assert.deepEqual(idsOf(page), [third, second]);
    assert.deepEqual(idsOf(await operators.audit({ before: second, limit: 1 })), [first]);
    const { action, actor, filter, begunAt, touchedAt, endedAt, outcome, error } = page[1] as AuditRow;
    assert.deepEqual({ action, actor, filter }, ACTION);
    assert.deepEqual([outcome, error], ['failed', `it's "broken" \\`]);
    assert.ok(Math.abs((begunAt?.getTime() ?? 0) - Date.now()) < 600_000);
    assert.ok((endedAt?.getTime() ?? 0) >= (begunAt?.getTime() ?? 0) && endedAt?.getTime() === touchedAt?.getTime());
    const open = page[0] as AuditRow;
    assert.deepEqual([open.outcome, open.endedAt, open.done, open.skipped], [null, null, 0, 0]);
  });

  it('forgets what is older than it is asked for, the oldest first', async ({ operators }) => {
    const audit = await operators.begin(ACTION);
    assert.equal((await run.store.cleaner.clean('audit', LATER, 10)).removed, 0);
    const kept = await operators.begin(ACTION);
    for (let cleaned = 1; cleaned > 0 && (await audited(operators, audit)) !== undefined;)
      cleaned = (await run.store.cleaner.clean('audit', 0, 1)).removed;
    assert.equal(await audited(operators, audit), undefined);
    assert.notEqual(await audited(operators, kept), undefined);
  });
}
