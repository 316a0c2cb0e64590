import { once } from 'node:events';
import type { PublishResult } from '../../../../lib/index.js';
import { Deadline } from '../../../../lib/time/deadline.js';
import { PUBLISHED } from '../../../../lib/transports/transport.js';
import { gate, stored, turn } from '../../../support/transport-relay.js';
import { ScriptedTransport } from '../../../support/scripted.js';
import { createRowLockRelay } from '../../../support/row-lock-relay.js';

const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

describe('a relay with row locks', () => {
  describe('a stop', () => {
    /** Ten batches, of which the first is on its way until `published` is opened. */
    async function publishing(begin: 'manual' | 'loops') {
      const under = createRowLockRelay({ batchSize: 10 });
      const { relay, stub, transport } = under;
      stub.ready = Array.from({ length: 100 }, () => stored());
      const published = gate<PublishResult>();
      transport.behave = () => published.opened;
      let closed = false;
      Object.assign(transport, { close: () => void (closed = true) });
      if (begin === 'loops') relay.start();
      const began = once(transport.signals, 'attempt');
      const pass = relay.runPass();
      await began;
      return { ...under, published, pass, isClosed: () => closed };
    }

    it.each(['manual', 'loops'] as const)(
      'waits for the batch that a pass publishes, and is the end of the pass (%s)',
      async (begin) => {
        const { relay, transport, published, pass, clock, isClosed, stub } = await publishing(begin);
        const stopped = relay.stop(new Deadline(clock, 30_000));
        for (let i = 0; i < 10; i += 1) await turn();
        expect(isClosed()).toBe(false);
        published.open(PUBLISHED);
        await stopped;
        expect(isClosed()).toBe(true);
        await pass;
        await expect(relay.runPass()).resolves.toMatchObject({ published: 0 });
        expect(transport.attempted).toHaveLength(10);
        expect(stub.ready).toHaveLength(90);
      },
    );

    it('while large payloads are read or a commit is flushed, nothing is published any more', async () => {
      const { relay, stub, transport, clock } = createRowLockRelay({}, new ScriptedTransport(), false);
      stub.ready = [stored()];
      const [asked, flushed] = [gate(), gate()];
      stub.flush = () => {
        asked.open();
        return flushed.opened;
      };
      const pass = relay.runPass();
      await asked.opened;
      const stopped = relay.stop(new Deadline(clock, 30_000));
      flushed.open();
      await stopped;
      await expect(pass).resolves.toMatchObject({ published: 0 });
      expect(transport.attempted).toEqual([]);
      expect(stub.ready).toHaveLength(1);
    });
  });

  it('a classifier that throws has no say, and undoes nothing that was published', async () => {
    const classify = (): never => {
      throw new Error('a bug of the application');
    };
    const { relay, stub, transport, hooks, outcomes } = createRowLockRelay({ retry: { classify } });
    stub.ready = [stored(), stored()];
    const [first] = stub.ready;
    transport.behave = (message) => (message.seq === first?.seq ? PUBLISHED : rejected());
    await relay.runPass();
    expect(outcomes[0]).toMatchObject({
      published: [{ seq: first?.seq }],
      parked: [{ state: 'waiting', attempts: 1 }],
    });
    expect(hooks.of('error')).not.toEqual([]);
  });

  it('C3: what kills its channel breaks one batch, is found singly, and alone charged', async () => {
    const { relay, stub, transport, hooks, outcomes, clock } = createRowLockRelay({ batchSize: 10 });
    stub.ready = Array.from({ length: 95 }, () => stored());
    const culprit = stub.ready[3]?.id;
    const neighbours = stub.ready.slice(0, 10).flatMap(({ id }) => (id === culprit ? [] : [id]));
    const broken: number[] = [];
    const publish = transport.publish.bind(transport);
    transport.publish = async (batch, context) => {
      const kills = batch.some(({ id }) => id === culprit);
      if (kills) broken.push(batch.length);
      transport.behave = () =>
        kills ? { ok: false, blame: 'collateral', suspect: 'message', error: new Error('channel closed') } : PUBLISHED;
      await publish(batch, context);
    };
    const charged = () => outcomes.flatMap(({ parked }) => parked);
    for (let passes = 0; charged().length === 0 && passes < 20; passes += 1) {
      await relay.runPass();
      // What does not fail is a backlog that lasts.
      stub.ready.push(...Array.from({ length: 20 }, () => stored()));
      if (relay.outage.circuit.state === 'open') await clock.advance(hooks.of('circuitOpened').at(-1)?.retryIn ?? 0);
    }
    expect(charged()).toMatchObject([{ id: culprit, attempts: 1 }]);
    expect(broken.filter((size) => size > 1)).toEqual([10]);
    const published = outcomes.flatMap((outcome) => outcome.published).map(({ id }) => id);
    expect(new Set(published).size).toBe(published.length);
    expect(published).toEqual(expect.arrayContaining(neighbours));
  });
});
