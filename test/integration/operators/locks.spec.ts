import { randomUUID } from 'node:crypto';
import type { QueryRunner } from 'typeorm';
import type { Named } from '../../../lib/testing/store-contract/harness.js';
import { revisionOf } from '../../../lib/store/edit.js';
import type { StoredRow } from '../../../lib/store/inspect-store.js';
import type { PostgresStore } from '../../../lib/store/postgres/store.js';
import { MariaDbStores } from '../../support/mariadb-store.js';
import { operatorOf } from '../../support/operator.js';
import { PostgresFixture, SETTINGS, until } from '../../support/postgres-store.js';
import { newMessage } from '../../support/relay.js';
import { describeWith, describeOnMysqlFamily } from '../../support/services.js';

/** Rows of an operator's transaction, at most. */
const MOST = 500;
const ROWS = 6_000;
const ALL: Named = { transport: 0, state: ['dead', 'waiting'] };
const ACTIONS = ['requeue', 'discard', 'cancel'] as const;

describeWith('postgres', 'PostgreSQL operators change many rows', () => {
  let fixture: PostgresFixture;
  let store: PostgresStore;
  beforeEach(async () => {
    fixture = await new PostgresFixture().start();
    store = fixture.store();
    await store.setup.create(SETTINGS);
    await store.setup.transports(['default'], 'default');
  });
  afterEach(() => fixture.stop());

  const query = (text: string, values: unknown[] = []): Promise<Record<string, string>[]> =>
    fixture.application.query(text, values);
  /** Dead, in the order of their ids here. `key` is SQL of the row's number `g`. */
  async function dead(rows: number, key = `'k' || g % 100`): Promise<string[]> {
    const inserted = await query(
      `insert into outbox_parked (transport, bucket, id, topic, key, type, state, blocking, died_at)
       select 0, g % ${SETTINGS.buckets}, gen_random_uuid(), 't', ${key}, 'row ' || g, 4, true, now()
       from generate_series(1, ${rows}) g returning id`,
    );
    return inserted.map(({ id }) => id as string);
  }
  const onRow = (when: string, does: string) =>
    query(`create function on_row() returns trigger language plpgsql as
        $$ begin ${does}; return coalesce(new, old); end $$;
      create trigger on_row before update or delete on outbox_parked for each row when (${when}) execute function on_row()`);
  /** From now on, how many rows each transaction changes. */
  async function watch(): Promise<void> {
    await query(`create table changes (tx xid8, what text, touched integer);
      create function note() returns trigger language plpgsql set search_path from current as
        $$ begin insert into changes select pg_current_xact_id(), tg_op, count(*) from gone; return null; end $$`);
    for (const what of ['update', 'delete'])
      await query(`create trigger note_${what} after ${what} on outbox_parked referencing old table as gone
        for each statement execute function note()`);
  }

  it('and leases are renewed meanwhile', async () => {
    const owner = randomUUID();
    const leases = await store.leases.acquire({ owner, transport: 0, leaseMs: 600_000, limit: SETTINGS.buckets });
    const ids = await dead(ROWS);
    await onRow(
      `old.type in ('row 1', 'row ${ROWS}')`,
      `perform pg_advisory_xact_lock(replace(old.type, 'row ', '')::integer)`,
    );
    const gates = fixture.application.createQueryRunner();
    try {
      await gates.query(`select pg_advisory_lock(1), pg_advisory_lock(${ROWS})`);
      const requeued = operatorOf(store).requeue(ALL);
      await waiting(gates, 1);
      const renewed = store.leases.renew(owner, 600_000);
      await waiting(gates, 2);
      await gates.query('select pg_advisory_unlock(1)');
      expect(await renewed).toHaveLength(leases.length); // while the last row is still to be changed
      await gates.query(`select pg_advisory_unlock(${ROWS})`);
      expect((await requeued).done).toBe(ids.length);
    } finally {
      await gates.query('select pg_advisory_unlock_all()');
      await gates.release();
    }
  });

  it.each(ACTIONS)('%s: in short transactions, and tells all of it', async (action) => {
    const ids = await dead(ROWS);
    await watch();
    const late = ids.slice(-3);
    const epoch = `select epoch from outbox_leases l where l.transport = o.transport and l.bucket = o.bucket`;
    await store.leases.acquire({ owner: randomUUID(), transport: 0, leaseMs: 600_000, limit: SETTINGS.buckets });
    await query(`update outbox_parked o set state = 2, sending_epoch = (${epoch}) where id = any($1)`, [late]);
    const absent = randomUUID();
    const report = await operatorOf(store)[action]({ ids: [...ids, absent, absent] });
    expect(report).toMatchObject({ done: ROWS - 3, tooLate: late, notFound: [absent] });
    expect(new Set(report.changed)).toEqual(new Set(ids.slice(0, -3)));
    const [most] = await query(
      `select max(touched)::integer as rows from (select sum(touched) as touched from changes group by tx) x`,
    );
    expect(most?.rows).toBe(MOST);
  });

  it('a failure leaves what was changed before it, and the rest to the next call', async () => {
    const ids = await dead(ROWS);
    await onRow(`old.type = 'row ${ROWS}'`, `raise exception 'not this one'`);
    await expect(operatorOf(store).requeue(ALL)).rejects.toThrow('not this one');
    const [{ rows } = {}] = await query('select count(*)::integer as rows from outbox_parked where state = 2');
    expect(rows).toBe(ROWS - MOST);
    await query('drop trigger on_row on outbox_parked');
    expect((await operatorOf(store).requeue(ALL)).done).toBe(ids.length);
  });

  it.each(['discard', 'cancel'] as const)('%s: wakes nothing that is to be deleted itself', async (action) => {
    await dead(3 * MOST, `'k'`);
    await query(`update outbox_parked set bucket = 0`);
    await query(`update outbox_parked set state = 3, died_at = null where type <> 'row 1'`);
    await query(`update outbox_parked set type = 'row 1' where type <> 'row ${3 * MOST}'`);
    await watch();
    expect((await operatorOf(store)[action]({ type: 'row 1', state: ['dead', 'blocked'] })).done).toBe(3 * MOST - 1);
    const woken = await query(`select sum(touched)::integer as rows from changes where what = 'UPDATE'`);
    expect(woken).toEqual([{ rows: 2 }]); // the one behind them, in the transaction and once it is committed
  });

  /** What an operator does to the one dead row, or to the one that is ready; and how the answer looks. */
  const CALLS: Record<string, (id: string, ready: string) => Promise<[answer: unknown, expected: unknown]>> = {
    requeue: async (id) => [await operatorOf(store).requeue({ ids: [id] }), { changed: [id] }],
    discard: async (id) => [await operatorOf(store).discard({ ids: [id] }), { changed: [id] }],
    release: async () => [{ released: await operatorOf(store).release('k') }, { released: 1 }],
    'cancel of what is ready': async (_, id) => [await operatorOf(store).cancel({ ids: [id] }), { changed: [id] }],
    edit: async (id) => {
      const { operators, inspect } = store;
      const [row] = (await inspect.find({ state: 'parked', ids: [id], after: null, limit: 1 })).rows as unknown as [
        StoredRow,
      ];
      const revision = revisionOf({ ...row, ...(await inspect.content(row, 0)) } as never);
      const step = { do: 'edit', row, revision, changes: { topic: 'other' }, requeue: true } as const;
      return [await operators.act({ action: 'edit', actor: 'ann', filter: '{}' }, step), { done: 1 }];
    },
  };

  it.each(Object.keys(CALLS))('%s: is done again when it was the victim of a deadlock', async (call) => {
    await query(`do $$ begin
      execute format('alter database %I set deadlock_timeout = ''10ms''', current_database()); end $$`);
    store = fixture.store(); // its sessions look for a deadlock at once
    const ready = newMessage({ key: 'k' }, SETTINGS.buckets);
    await fixture.committed((tx) => store.writer.insert(tx, [ready]));
    const [id = ''] = await dead(1, `'k'`);
    await query(`update outbox_parked set bucket = $1`, [ready.bucket]);
    // Behind the locks of its leases the operator waits for 1, then for 2.
    await query(`create function in_turn() returns trigger language plpgsql as
      $$ begin perform pg_advisory_xact_lock(1); perform pg_advisory_xact_lock(2); return null; end $$`);
    for (const table of ['outbox_parked', 'outbox_ready'])
      await query(
        `create trigger in_turn before update or delete on ${table} for each statement execute function in_turn()`,
      );
    const [gate, other] = [fixture.application.createQueryRunner(), fixture.application.createQueryRunner()];
    try {
      await gate.query('select pg_advisory_lock(1)');
      await other.startTransaction();
      await other.query(`set local deadlock_timeout = '1h'`); // the victim is never this one
      await other.query('select pg_advisory_xact_lock(2)');
      const called = CALLS[call]?.(id, ready.id);
      await waiting(gate, 1);
      const leases = other.query('update outbox_leases set epoch = epoch');
      await waiting(gate, 2);
      await gate.query('select pg_advisory_unlock(1)');
      await leases; // the operator holds none any more
      await other.commitTransaction();
      const [answer, expected] = (await called) ?? [];
      expect(answer).toMatchObject(expected as object);
    } finally {
      await gate.query('select pg_advisory_unlock_all()');
      await gate.release();
      await other.release();
    }
  });
});

describeOnMysqlFamily('operators change many rows', (kind) => {
  it('as many ids as a call may name', async () => {
    const stores = new MariaDbStores(kind);
    await stores.start();
    const store = stores.open();
    try {
      await store.setup.transports(['default'], 'default');
      const ids = Array.from({ length: 10_000 }, () => randomUUID());
      const there = [ids[0] as string, ids.at(-1) as string];
      const { tx, commit } = await stores.begin();
      const messages = there.map((id) => newMessage({ id }, stores.settings.buckets));
      await store.writer.insert(tx, messages);
      await commit();
      const call = async (action: (typeof ACTIONS)[number]): Promise<unknown> => {
        const { changed, tooLate, notFound } = await operatorOf(store)[action]({ ids });
        return [[...changed].sort(), [...tooLate].sort(), notFound.length];
      };
      const sorted = there.toSorted();
      expect(await call('requeue')).toEqual([[], sorted, ids.length - 2]);
      expect(await call('discard')).toEqual([[], sorted, ids.length - 2]);
      expect(await call('cancel')).toEqual([sorted, [], ids.length - 2]);
    } finally {
      await store.close();
      await stores.stop();
    }
  });
});

async function waiting(session: QueryRunner, sessions: number): Promise<void> {
  const text = `select count(*)::integer as n from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`;
  await until(`${sessions} sessions wait`, async () => (await session.query(text))[0].n === sessions);
}
