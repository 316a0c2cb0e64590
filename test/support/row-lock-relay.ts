import type { OutboxOptions, OutboxStore } from '../../lib/index.js';
import { BucketLeases } from '../../lib/relay/leases/bucket-leases.js';
import { transportRelayOptions } from '../../lib/relay/transport-parts.js';
import { RowLockRelay } from '../../lib/relay/row-lock/row-lock-relay.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import type { LockedOutcome, LockSession } from '../../lib/store/parked-store.js';
import { FakeClock } from '../../lib/testing/index.js';
import { storeOf, StubStore, turn } from './transport-relay.js';
import { RecordedHooks, ScriptedTransport } from './scripted.js';

/** A relay over rows in memory: what fails is due again at once. */
export function createRowLockRelay(
  given: Partial<OutboxOptions> = {},
  transport = new ScriptedTransport(),
  durable = true,
) {
  const options = resolveOptions(
    { transports: { default: transport }, ordering: 'none', coordination: 'rowLock', ...given },
    {},
  );
  const clock = new FakeClock();
  const stub = new StubStore(4);
  const outcomes: LockedOutcome[] = [];
  const limits: number[] = [];
  /** Of the session with the locks. */
  const ending = new AbortController();
  const session: LockSession = { ended: ending.signal, alive: async () => ending.signal.throwIfAborted() };
  const withLockedRows: OutboxStore['rowLocks']['withLockedRows'] = async ({ limit }, work) => {
    await turn();
    limits.push(limit);
    const locked = stub.ready.slice(0, limit);
    if (locked.length === 0) return { locked: 0, refused: [] };
    const outcome = await work(locked, durable, session);
    ending.signal.throwIfAborted();
    outcomes.push(outcome);
    stub.remove(outcome.published.map(({ seq }) => ({ seq })));
    return { locked: locked.length, refused: [] };
  };
  const store = storeOf(Object.assign(stub, { withLockedRows }));
  const hooks = new RecordedHooks();
  const settings = { lease: options.lease, buckets: 4, leader: false, every: 1_000, need: 1_000 };
  const leases = new BucketLeases(stub, clock, 'me', 'a test', settings);
  leases.pauses.heard(); // as the first heartbeat says it
  const parts = {
    name: 'default',
    id: 0,
    transport,
    store,
    leases,
    options: transportRelayOptions(options),
    clock,
    random: () => 0.5,
    hooks,
  };
  const relay = new RowLockRelay(
    { ...parts, died: () => undefined },
    () => 1_000,
    () => undefined,
  );
  return { relay, stub, transport, hooks, outcomes, limits, clock, ending };
}
