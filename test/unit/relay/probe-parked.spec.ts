import type { OutboxMessage, PublishResult } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import type { RelayUnderTest, StubStore } from '../../support/transport-relay.js';
import { createTransportRelay, leased, stored } from '../../support/transport-relay.js';
import { broken, ScriptedTransport } from '../../support/scripted.js';

const silence = (): Promise<PublishResult> => new Promise(() => undefined);

/** These rows are due; whoever takes one has it, until it is given back. */
function parked(store: StubStore, rows: readonly OutboxMessage[]): void {
  const due = new Map(rows.map((row) => [row.parkedId as string, row]));
  const all = new Map(due);
  store.due = async (_transport, buckets, limit) => {
    const some = [...due.values()].filter(({ bucket }) => buckets.includes(bucket)).slice(0, limit);
    return {
      rows: some.map(({ parkedId, bucket, key }) => ({ parkedId: parkedId as string, bucket, key, state: 'waiting' })),
      nextIn: null,
    };
  };
  store.take = async ({ due: taken, keys }) => {
    const messages = taken.map(({ parkedId }) => due.get(parkedId) as OutboxMessage);
    for (const { parkedId } of taken) due.delete(parkedId);
    return { messages, clear: [...keys], durable: true };
  };
  store.repark = async (_owner, _leases, entries) => {
    for (const { parkedId } of entries) due.set(parkedId, all.get(parkedId) as OutboxMessage);
    return { fence: undefined, affected: entries.length };
  };
}

let ids = 0;
const dueRow = (fields: Partial<OutboxMessage> = {}): OutboxMessage =>
  stored({ bucket: 2, parkedId: `parked ${(ids += 1)}`, parkedState: 'waiting', ...fields });

/** So many seconds of the fake clock, with renewals. */
async function pass({ clock, leases }: RelayUnderTest, seconds: number): Promise<void> {
  for (let i = 0; i < seconds; i += 1) {
    await clock.advance(1_000);
    if (i % 3 === 0) await leases.runOnce();
  }
}

describe('probes of a broker, with one ready row that cannot get through', () => {
  async function opened(behave: () => PublishResult | Promise<PublishResult>) {
    const under = await leased(createTransportRelay());
    const { relay, loops, store, transport } = under;
    const stuck = stored({ key: 'stuck', bucket: 1 });
    transport.behave = ({ id }) => (id === stuck.id ? behave() : PUBLISHED);
    store.ready = [stuck];
    const seconds = (count: number): Promise<void> => pass(under, count);
    loops.start();
    await seconds(40);
    expect([relay.outage.circuit.state === 'closed', relay.trial.failed?.id]).toEqual([false, stuck.id]);
    return { ...under, stuck, seconds };
  }
  const published = ({ published: all }: { published: OutboxMessage[] }): string[] => all.map(({ id }) => id);

  it.each([
    ['is never confirmed', silence],
    ['breaks its connection', broken],
  ])('C2: that %s, what falls due meanwhile is published', async (_what, behave) => {
    const { store, transport, seconds } = await opened(behave);
    const rows = [dueRow(), dueRow({ key: 'other' }), dueRow({ bucket: 3 })];
    parked(store, rows);
    await seconds(600);
    expect(published(transport).sort()).toEqual(rows.map(({ id }) => id).sort());
  });

  it('C2: so is what waits behind a row that is gone', async () => {
    const { relay, store, transport, seconds } = await opened(silence);
    const blocked = dueRow({ key: 'freed', parkedState: 'blocked' });
    store.take = async ({ keys }) => {
      const messages = keys.some(({ key }) => key === 'freed') && published(transport).length === 0 ? [blocked] : [];
      return { messages, clear: [], durable: true };
    };
    relay.parked.keys.add(2, 'freed');
    relay.parked.continueKey(2, 'freed');
    await seconds(600);
    expect(published(transport)).toEqual([blocked.id]);
  });

  it('C2: one that is due and cannot get through either is not every other probe', async () => {
    const { store, transport, seconds } = await opened(silence);
    const [alike, good] = [dueRow(), dueRow({ bucket: 3 })];
    const { behave } = transport;
    transport.behave = (message) => (message.id === alike.id ? silence() : behave(message));
    parked(store, [alike, good]);
    await seconds(600);
    expect(published(transport)).toEqual([good.id]);
  });

  it('a parked row is given back, uncharged, when it finds the broker away', async () => {
    const { hooks, store, transport, seconds } = await opened(silence);
    const row = dueRow({ attempts: 3 });
    const entries: { attempts: number; delay: number | null }[] = [];
    parked(store, [row]);
    const { repark } = store;
    store.repark = (owner, leases, given) => {
      entries.push(...given);
      return repark(owner, leases, given);
    };
    transport.behave = () => ({ ok: false, blame: 'transport', error: new Error('away') });
    await seconds(600);
    const tries = transport.attempted.filter(({ id }) => id === row.id).length;
    expect(tries).toBeGreaterThan(3);
    expect(entries.length).toBe(tries);
    expect(new Set(entries.map(({ attempts, delay }) => `${attempts} ${delay}`))).toEqual(new Set(['3 0']));
    expect(hooks.of('circuitClosed')).toHaveLength(0);
    // And the ready row is asked as often.
    const others = transport.attempted.filter(({ bucket }) => bucket === 1).length;
    expect(Math.abs(others - tries)).toBeLessThan(others);
  });

  it('a single pass asks both: with nothing due, the ready table', async () => {
    const under = await leased(createTransportRelay({}, new ScriptedTransport(), 1));
    const { relay, loops, store, transport } = under;
    transport.behave = () => ({ ok: false, blame: 'transport', error: new Error('away') });
    store.ready = [stored()];
    for (let tries = 0; tries < 9 && !relay.outage.asksParked; tries += 1) {
      await loops.runPass();
      await pass(under, 30);
    }
    expect(relay.outage.asksParked).toBe(true);
    transport.behave = () => PUBLISHED;
    expect(await loops.runPass()).toMatchObject({ published: 1 });
  });
});
