import { BucketLeases } from '../../lib/claim/bucket-leases.js';
import { laneOptions } from '../../lib/dispatch/lane.types.js';
import { RowLockLane } from '../../lib/dispatch/row-lock-lane.js';
import type { OutboxOptions } from '../../lib/outbox.options.js';
import { PUBLISHED, type PublishResult } from '../../lib/publish/transport.js';
import { resolveOptions } from '../../lib/resolve-options.js';
import type { OutboxStore } from '../../lib/store/outbox-store.js';
import type { LockedOutcome } from '../../lib/store/parked-store.js';
import { FakeClock } from '../../lib/testing/fake-clock.js';
import { StubStore, stored, turn } from '../support/lane.js';
import { RecordedHooks, ScriptedTransport } from '../support/relay.js';

const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

/** A lane over rows in memory: what fails is due again at once. */
function createRowLockLane(given: Partial<OutboxOptions> = {}, transport = new ScriptedTransport()) {
  const options = resolveOptions(
    { transports: { default: transport }, ordering: 'none', coordination: 'rowLock', ...given },
    {},
  );
  const clock = new FakeClock();
  const stub = new StubStore(4);
  const outcomes: LockedOutcome[] = [];
  const limits: number[] = [];
  const withLockedRows: OutboxStore['withLockedRows'] = async ({ limit }, work) => {
    await turn();
    limits.push(limit);
    const locked = stub.ready.slice(0, limit);
    if (locked.length === 0) return 0;
    const outcome = await work(locked, true, async () => undefined);
    outcomes.push(outcome);
    stub.remove(outcome.published.map(({ seq }) => ({ seq })));
    return locked.length;
  };
  const store = Object.assign(stub, { withLockedRows }) as unknown as OutboxStore;
  const hooks = new RecordedHooks();
  const settings = { lease: options.lease, buckets: 4, leader: false, every: 1_000, need: 1_000 };
  const leases = new BucketLeases(stub, clock, 'me', 'a test', settings);
  const parts = {
    name: 'default',
    id: 0,
    transport,
    store,
    leases,
    options: laneOptions(options),
    clock,
    random: () => 0.5,
    hooks,
  };
  const lane = new RowLockLane(
    { ...parts, died: () => undefined },
    () => 1_000,
    () => undefined,
  );
  return { lane, stub, transport, hooks, outcomes, limits, clock };
}

describe('a lane with row locks', () => {
  it('a pass ends although what failed is due again at once', async () => {
    const { lane, stub, transport } = createRowLockLane();
    stub.ready = [stored(), stored()];
    transport.behave = rejected;
    await expect(lane.runPass()).resolves.toMatchObject({ published: 0, dead: 0 });
    expect(transport.attempted.length).toBeLessThanOrEqual(6);
  });

  it('a pass publishes a backlog of many batches', async () => {
    const { lane, stub } = createRowLockLane({ batchSize: 10 });
    stub.ready = Array.from({ length: 95 }, () => stored());
    await expect(lane.runPass()).resolves.toMatchObject({ published: 95 });
  });

  it('locks no more rows than its transport takes at once', async () => {
    const { lane, stub, limits } = createRowLockLane({}, Object.assign(new ScriptedTransport(), { maxBatch: 10 }));
    stub.ready = Array.from({ length: 95 }, () => stored());
    await expect(lane.runPass()).resolves.toMatchObject({ published: 95 });
    expect(new Set(limits)).toEqual(new Set([10]));
  });

  it('a classifier that throws has no say, and undoes nothing that was published', async () => {
    const classify = (): never => {
      throw new Error('a bug of the application');
    };
    const { lane, stub, transport, hooks, outcomes } = createRowLockLane({ retry: { classify } });
    stub.ready = [stored(), stored()];
    const [first] = stub.ready;
    transport.behave = (message) => (message.seq === first?.seq ? PUBLISHED : rejected());
    await lane.runPass();
    expect(outcomes[0]).toMatchObject({
      published: [{ seq: first?.seq }],
      parked: [{ state: 'waiting', attempts: 1 }],
    });
    expect(hooks.of('error')).not.toEqual([]);
  });

  it('one that fails as a neighbour although it is alone opens the circuit', async () => {
    const { lane, stub, transport } = createRowLockLane();
    stub.ready = [stored(), stored()];
    transport.behave = () => ({ ok: false, blame: 'collateral', error: new Error('channel closed') });
    await lane.runPass();
    await lane.runPass();
    expect(lane.outage.circuit.state).toBe('open');
    expect(transport.attempted.length).toBeLessThanOrEqual(4);
  });

  it('C3: neighbours of a culprit that another instance published do not make the rest go one by one', async () => {
    const { lane, stub, transport, outcomes } = createRowLockLane({ batchSize: 10 });
    const broken = Array.from({ length: 10 }, () => stored());
    const others = Array.from({ length: 95 }, () => stored());
    stub.ready = broken;
    transport.behave = (message) => {
      if (!broken.some(({ id }) => id === message.id)) return PUBLISHED;
      stub.ready = others; // the other instance has them
      return { ok: false, blame: 'collateral', error: new Error('channel closed') };
    };
    await expect(lane.runPass()).resolves.toMatchObject({ published: 95 });
    expect(outcomes.map(({ published }) => published.length)).toEqual([0, ...Array<number>(9).fill(10), 5]);
  });

  it('C3: what kills its channel breaks one batch, is found singly, and alone charged', async () => {
    const { lane, stub, transport, hooks, outcomes, clock } = createRowLockLane({ batchSize: 10 });
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
      await lane.runPass();
      // What does not fail is a backlog that lasts.
      stub.ready.push(...Array.from({ length: 20 }, () => stored()));
      if (lane.outage.circuit.state === 'open') await clock.advance(hooks.of('circuitOpened').at(-1)?.retryIn ?? 0);
    }
    expect(charged()).toMatchObject([{ id: culprit, attempts: 1 }]);
    expect(broken.filter((size) => size > 1)).toEqual([10]);
    const published = outcomes.flatMap((outcome) => outcome.published).map(({ id }) => id);
    expect(new Set(published).size).toBe(published.length);
    expect(published).toEqual(expect.arrayContaining(neighbours));
  });

  it('C16: a row that another instance holds while a connection closes the circuit pays for no outage', async () => {
    const { lane, stub, transport, hooks, clock } = createRowLockLane({ retry: { maxAttempts: 1 } });
    const row = stored();
    transport.behave = () => ({ ok: false, blame: 'transport', error: new Error('not enough replicas') });
    for (let opened = 1; opened <= 6; opened += 1) {
      stub.ready = [row];
      await lane.runPass();
      stub.ready = []; // locked elsewhere
      await clock.advance(hooks.of('circuitOpened').at(-1)?.retryIn ?? 0);
      await lane.runPass();
      expect(lane.outage.circuit.state).toBe('closed');
    }
    expect(transport.attempted).toHaveLength(6);
    expect(hooks.of('dead')).toEqual([]);
    expect(hooks.of('failed').map(({ blame }) => blame)).toEqual(Array(6).fill('transport'));
  });
});
