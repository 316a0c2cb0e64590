import type { StoreHarness } from 'nestjs-outbox/testing';
import type { OutboxMessage } from '../../lib/index.js';
import type { NewMessage } from '../../lib/outbox-message.js';
import { STATEMENT_TIMEOUT, waitedTooLong } from '../../lib/store/database-errors.js';
import { describeStoreContract } from '../../lib/testing/store-contract/contract.js';
import { newMessage } from '../support/scripted.js';
import { History } from './history.js';
import { NO_RATES } from './plan-faults.js';
import { SimulatedProcess } from './process.js';
import { replica } from './store/memory-backup.js';
import { MemoryDatabase } from './store/memory-database.js';
import { A_DEAD_ROW, DeadRows } from './store/memory-dead.js';
import { MemoryStore } from './store/memory-store.js';
import type { Wire as ToStore } from './store/memory-wire.js';
import { Wire } from './wire.js';
import { World } from './world.js';

/** Moves on with every look: what was done a statement ago is older than 0 ms, as by a clock of microseconds. */
function wallClock(): () => number {
  let last = 0;
  return () => (last = Math.max(Date.now(), last + 0.001));
}

function memory(proof: 'snapshot' | 'probe', ordering: 'key' | 'none' | 'global' = 'key'): StoreHarness {
  const settings = { buckets: 8, ordering, coordination: 'buckets' } as const;
  let database: MemoryDatabase;
  return {
    settings,
    proof,
    changesAlone: true,
    async start() {
      database = new MemoryDatabase({ now: wallClock() });
      await new MemoryStore(database).create(settings);
    },
    async stop() {},
    open: () => new MemoryStore(database, { floor: proof }),
    async begin() {
      const tx = database.begin();
      return { tx, commit: async () => tx.commit(), rollback: async () => tx.rollback() };
    },
    async setNextSeq(seq) {
      database.nextSeq = BigInt(seq);
    },
    async forget(transports) {
      const gone = new Set(transports);
      const { ready, parked, leases } = database;
      for (const [name, id] of database.transports) if (gone.has(id)) database.transports.delete(name);
      for (const [place, { transport }] of leases) {
        if (!gone.has(transport)) continue;
        leases.delete(place);
        ready.delete(place);
      }
      for (const [id, { transport }] of parked) if (gone.has(transport)) parked.delete(id);
    },
  };
}

describeStoreContract('in memory, with snapshots', memory('snapshot'));
describeStoreContract('in memory, with probes', memory('probe'));
describeStoreContract('in memory, no order', memory('snapshot', 'none'));
describeStoreContract('in memory, a global order', memory('snapshot', 'global'));

describe('a database in memory', () => {
  const TRANSPORT = 1;
  const message = (fields: Partial<NewMessage> = {}): NewMessage =>
    newMessage({ transport: TRANSPORT, bucket: 0, key: 'k', ...fields });
  let time: number;
  let database: MemoryDatabase;
  let store: MemoryStore;
  let lost: { operation: string; what: 'request' | 'reply' } | undefined;
  const wire: ToStore = async (operation, effect) => {
    if (operation !== lost?.operation) return effect();
    if (lost.what === 'reply') effect();
    throw new Error('connection lost');
  };
  const insert = async (fields: Partial<NewMessage> = {}): Promise<void> => {
    const tx = database.begin();
    await store.insert(tx, [message(fields)]);
    tx.commit();
  };
  const fetch = () =>
    store.fetch({ transport: TRANSPORT, positions: [{ bucket: 0, after: '0' }], perBucket: 10, limit: 10 });
  const acquire = () => store.acquire({ owner: 'a', leaseMs: 1_000, transport: TRANSPORT, limit: 100 });
  const lockRows = (work: () => Promise<void>) =>
    store.withLockedRows({ transport: TRANSPORT, limit: 10, onPublished: 'delete' }, async (messages) => {
      await work();
      return {
        published: messages.map(({ id, bucket, seq, attempts, parkedId }) => ({ id, bucket, seq, attempts, parkedId })),
        parked: [],
        reparked: [],
      };
    });

  beforeEach(async () => {
    time = 1_000_000;
    lost = undefined;
    database = new MemoryDatabase({ now: () => time });
    store = new MemoryStore(database, { wire });
    await store.create({ buckets: 4, ordering: 'key', coordination: 'buckets' });
    await store.transports(['orders'], 'default');
  });

  it('writes nothing when a request is lost, and everything when a reply is', async () => {
    lost = { operation: 'acquire', what: 'request' };
    await expect(acquire()).rejects.toThrow('connection lost');
    expect(database.lease(TRANSPORT, 0)).toMatchObject({ owner: null, epoch: 0n });
    lost = { operation: 'acquire', what: 'reply' };
    await expect(acquire()).rejects.toThrow('connection lost');
    expect(database.lease(TRANSPORT, 0)).toMatchObject({ owner: 'a', epoch: 1n });
  });

  it('takes the id of a transaction with its first row, and lists it as open only below a finished one', async () => {
    const early = database.begin();
    await insert();
    const late = database.begin();
    early.takeId();
    await store.insert(late, [message()]);
    expect((await fetch()).snapshot?.open).toEqual([]);
    await insert();
    const { snapshot, messages } = await fetch();
    expect(snapshot?.open).toEqual([String(early.id), String(late.id)]);
    expect(messages).toHaveLength(2);
    late.rollback();
    await store.insert(early, [message()]);
    early.commit();
    expect((await fetch()).snapshot?.open).toEqual([]);
    expect((await fetch()).messages.map(({ seq }) => seq)).toEqual(['1', '3', '4']);
  });

  it('frees locked rows with the connection, and then writes nothing', async () => {
    await insert();
    await expect(lockRows(async () => store.reconnect())).rejects.toThrow('rolledBack');
    expect((await fetch()).session).toBe(1);
    lost = { operation: 'lockRows', what: 'reply' };
    await expect(lockRows(async () => undefined)).rejects.toThrow('connection lost');
    lost = undefined;
    expect(await lockRows(async () => undefined)).toMatchObject({ locked: 1 });
    expect(database.ready.size).toBe(0);
    expect(database.snapshot().open).toEqual([]);
  });

  it('gives out no number of a row that a replica has, where numbers had gone back before it took over', async () => {
    for (let n = 0; n < 3; n += 1) await insert();
    database.setNumbersBack(false);
    const rows = (): string[] => database.readyRows(TRANSPORT, 0).map(({ seq }) => seq);
    replica(database)();
    await insert();
    expect(rows()).toEqual(['1', '2', '3', '4']);
  });

  it('keeps what is gone while somebody holds a snapshot, and reads walk over it', async () => {
    const settle = async (seq: string): Promise<void> => {
      const { messages } = await fetch();
      const gone = messages.find((each) => each.seq === seq) as OutboxMessage;
      await store.settle(TRANSPORT, [gone], 'delete');
    };
    const sweep = (after: string, upTo: string) => store.sweep(TRANSPORT, [{ bucket: 0, after, upTo }]);
    database.stride = 1_000n;
    for (let n = 0; n < 4; n += 1) await insert();
    await settle('1');
    const dead = (database.dead = new DeadRows(1_000));
    await settle('1001');
    await settle('2001');
    const rolledBack = database.begin();
    await store.insert(rolledBack, [message()]);
    rolledBack.rollback();
    dead.cost('settle');
    await fetch();
    expect(dead.cost('fetch')).toBeCloseTo(2_000 * A_DEAD_ROW);
    await sweep('1201', '1801');
    await sweep('2001', '4001');
    const ofOne = dead.cost('sweep') / 600;
    expect(ofOne).toBeGreaterThan(A_DEAD_ROW);
    await sweep('0', '4001');
    expect(dead.cost('sweep')).toBeCloseTo(2_000 * ofOne);
    await sweep('0', '4001');
    expect(dead.cost('readPlaces')).toBe(0);
    database.empty();
    await fetch();
    expect(dead.cost('fetch')).toBe(0);
    database.crash();
    expect(database.dead).toBeUndefined();
  });
});

describe('a statement that walks over too much', () => {
  it('is cancelled for its time, as a server does; three in a row stand still', async () => {
    const world = new World();
    const history = new History(() => world.now, false, undefined);
    const process = new SimulatedProcess(world, 'relay', 0, 0);
    const state = {
      downUntil: 0,
      failovers: 0,
      failing: new Map<string, number>(),
      holdsLocks: false,
      rates: NO_RATES,
    };
    const wire = new Wire(world, 1, history, state, process);
    const ask = async (cost: number): Promise<string> => {
      wire.cost = () => cost;
      const began = world.now;
      const answer = wire
        .call('sweep', () => 'an answer')
        .catch((error: unknown) => `${waitedTooLong(error) ? 'cancelled' : String(error)}`);
      await world.run(began + 20_000);
      return answer;
    };
    expect(await ask(STATEMENT_TIMEOUT - 1)).toBe('an answer');
    for (const cost of [STATEMENT_TIMEOUT, 1e9, 10])
      expect(await ask(cost)).toMatch(cost > 10 ? 'cancelled' : 'answer');
    expect(history.violations).toEqual([]);
    expect(await ask(STATEMENT_TIMEOUT)).toBe('cancelled');
    expect(history.violations).toEqual(['invariant 15: relay: sweep was cancelled for its time 3 times in a row']);
  });
});
