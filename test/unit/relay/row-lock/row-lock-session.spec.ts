import type { OutboxStore } from '../../../../lib/index.js';
import { PUBLISHED } from '../../../../lib/transports/transport.js';
import { gate, stored } from '../../../support/transport-relay.js';
import { createRowLockRelay } from '../../../support/row-lock-relay.js';

describe('a relay with row locks, once the session that holds them is over', () => {
  const over = new Error('the session is over');

  it('the next of those that go alone is not begun', async () => {
    const { relay, stub, transport, ending } = createRowLockRelay();
    stub.ready = [stored(), stored(), stored()];
    for (const row of stub.ready) relay.trial.markAlone(row);
    transport.behave = () => {
      ending.abort(over);
      return PUBLISHED;
    };
    await expect(relay.runPass()).rejects.toBe(over);
    expect(transport.attempted).toHaveLength(1);
  });

  it('nothing is begun whose large payload was read meanwhile', async () => {
    const { relay, stub, transport, ending } = createRowLockRelay();
    stub.ready = [stored({ body: null, unread: 100_000 })];
    const readPayloads: OutboxStore['ready']['readPayloads'] = async () => {
      ending.abort(over);
      return ['{}'];
    };
    Object.assign(stub, { readPayloads });
    await expect(relay.runPass()).rejects.toBe(over);
    expect(transport.attempted).toEqual([]);
  });

  it('nothing is begun of rows that come after a stand-still, before the end of their session is read', async () => {
    const { relay, stub, transport, clock } = createRowLockRelay();
    stub.ready = [stored()];
    const { withLockedRows } = stub as unknown as OutboxStore['rowLocks'];
    const late: OutboxStore['rowLocks']['withLockedRows'] = (request, work) =>
      withLockedRows(request, async (rows, durable, { ended }) => {
        await clock.advance(2_000);
        return work(rows, durable, { ended, alive: () => Promise.reject(over) });
      });
    Object.assign(stub, { withLockedRows: late });
    await expect(relay.runPass()).rejects.toBe(over);
    expect(transport.attempted).toEqual([]);
  });

  it('what is on its way is broken off, and that is no outage of the broker', async () => {
    const { relay, stub, transport, ending, hooks, clock } = createRowLockRelay();
    stub.ready = [stored(), stored()];
    const begun = gate();
    transport.publish = (_batch, { signal }) => {
      begun.open();
      return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)));
    };
    const pass = relay.runPass();
    await begun.opened;
    expect(relay.flight.messages).toBe(2);
    ending.abort(over);
    await expect(pass).rejects.toBe(over);
    expect(clock.elapsed).toBe(0);
    expect(relay.outage.circuit.state).toBe('closed');
    expect(hooks.events).toEqual([]);
    expect(relay.flight.messages).toBe(0);
  });
});
