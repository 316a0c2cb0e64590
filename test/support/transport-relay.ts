import { type OutboxOptions, type OutboxStore, OutboxMessage } from '../../lib/index.js';
import { ROLES } from './each-role.js';
import { leasesOf } from '../../lib/relay/leases/relay-leases.js';
import { TransportRelay } from '../../lib/relay/transport-relay.js';
import { RelayLoops } from '../../lib/relay/relay-loops.js';
import { transportRelayOptions } from '../../lib/relay/transport-parts.js';
import { compareSeq, type StoredMessage } from '../../lib/outbox-message.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import type { Acquired } from '../../lib/store/lease-store.js';
import type { WriteReport } from '../../lib/store/ready-store.js';
import { FakeClock } from '../../lib/testing/index.js';
import { RecordedHooks, ScriptedTransport } from './scripted.js';

let created = 0;

/** A stored message as a read returns it; unordered in bucket 0 unless told otherwise. */
export function stored(fields: Partial<StoredMessage> = {}): OutboxMessage {
  created += 1;
  return new OutboxMessage({
    bucket: 0,
    seq: String(created),
    id: `00000000-0000-7000-8000-${String(created).padStart(12, '0')}`,
    topic: 't',
    key: null,
    type: 't',
    version: 1,
    contentType: 'application/json',
    headersJson: null,
    optionsJson: null,
    body: '{}',
    createdText: '2026-01-01 00:00:00+00',
    attempts: 0,
    parkedId: null,
    parkedState: null,
    ...fields,
  });
}

const QUIET = { xmin: '1', xmax: '1', open: [] };
type StoreParts = OutboxStore['leases'] &
  Pick<OutboxStore['ready'], 'session' | 'fetch' | 'sweep' | 'readPlaces' | 'flush' | 'settle' | 'park'> &
  Omit<OutboxStore['parked'], 'unannouncedDead' | 'markAnnounced'>;

interface StubLease {
  owner: string | null;
  epoch: bigint;
  crashes: number;
  trial: string | null;
}

/**
 * One ready table and one lease table in memory, and nothing parked. Each method is a property: a test that wants another
 * answer, or one at another time, puts its own there.
 */
export class StubStore implements StoreParts {
  ready: OutboxMessage[] = [];
  readonly leases = new Map<number, StubLease>();
  session = 0;

  acquire: OutboxStore['leases']['acquire'] = async ({ owner, transport, limit, only }) => {
    const taken: Acquired[] = [];
    for (const [bucket, lease] of this.leases) {
      if (taken.length >= limit || lease.owner !== null || only?.includes(bucket) === false) continue;
      lease.owner = owner;
      lease.epoch += 1n;
      const { crashes, trial } = lease;
      const former = crashes === 0 ? null : 'former owner';
      taken.push({ transport, bucket, epoch: String(lease.epoch), crashes, trial, former });
    }
    return taken;
  };
  renew: OutboxStore['leases']['renew'] = async (owner, _leaseMs, lasted = []) => {
    for (const { bucket } of lasted) Object.assign(this.leases.get(bucket) as object, { crashes: 0, trial: null });
    return [...this.leases].flatMap(([bucket, lease]) =>
      lease.owner === owner ? [{ transport: 0, bucket, epoch: String(lease.epoch) }] : [],
    );
  };
  giveBack: OutboxStore['leases']['giveBack'] = async (owner, leases) => {
    for (const { bucket, epoch } of leases) {
      const lease = this.leases.get(bucket);
      if (lease?.owner === owner && String(lease.epoch) === epoch) lease.owner = null;
    }
  };
  noteTrial: OutboxStore['leases']['noteTrial'] = async (owner, { bucket, epoch }, id) => {
    const lease = this.leases.get(bucket);
    if (lease?.owner !== owner || String(lease.epoch) !== epoch) return false;
    lease.trial = id;
    return true;
  };
  beat: OutboxStore['leases']['beat'] = async (instance) => ({ instances: [instance], now: 0 });
  /** Nobody: whoever looks says that it is there. */
  living: OutboxStore['leases']['living'] = async () => ({ instances: [], now: 0 });
  heldLeases: OutboxStore['leases']['heldLeases'] = async () =>
    [...this.leases].flatMap(([bucket, { owner, epoch }]) =>
      owner === null ? [] : { transport: 0, bucket, epoch: String(epoch), owner, remaining: 30_000, until: '' },
    );
  endLeases: OutboxStore['leases']['endLeases'] = async () => [];
  expire: OutboxStore['leases']['expire'] = async () => [];

  fetch: OutboxStore['ready']['fetch'] = async ({ positions, perBucket, limit }) => {
    const messages = positions.flatMap(({ bucket, after }) =>
      this.ready
        .filter((row) => row.bucket === bucket && compareSeq(row.seq, after) > 0)
        .sort((a, b) => compareSeq(a.seq, b.seq))
        .slice(0, perBucket),
    );
    return { messages: messages.slice(0, limit).map(again), snapshot: QUIET, durable: true, session: this.session };
  };
  sweep: OutboxStore['ready']['sweep'] = async () => ({ places: [], complete: true });
  readPlaces: OutboxStore['ready']['readPlaces'] = async (_transport, places) => ({
    messages: this.ready.filter((row) => places.some(({ seq }) => seq === row.seq)).map(again),
    snapshot: QUIET,
    durable: true,
    session: this.session,
  });
  flush: OutboxStore['ready']['flush'] = async () => undefined;
  settle: OutboxStore['ready']['settle'] = async (_transport, messages) => this.remove(messages);
  park: OutboxStore['ready']['park'] = async (_owner, _leases, entries) => this.remove(entries);

  due: OutboxStore['parked']['due'] = async () => ({ rows: [], nextIn: null });
  take: OutboxStore['parked']['take'] = async ({ keys }) => ({ messages: [], clear: [...keys], durable: true });
  repark: OutboxStore['parked']['repark'] = async (_owner, _leases, { length }) => ({
    fence: undefined,
    affected: length,
  });
  blockingKeys: OutboxStore['parked']['blockingKeys'] = async () => [];
  blockedAmong: OutboxStore['parked']['blockedAmong'] = async () => [];
  hasten: OutboxStore['parked']['hasten'] = async () => ({ hastened: 0, passed: 0, next: null });

  constructor(buckets: number) {
    for (let bucket = 0; bucket < buckets; bucket += 1)
      this.leases.set(bucket, { owner: null, epoch: 0n, crashes: 0, trial: null });
  }

  remove(rows: readonly { seq: string }[]): WriteReport {
    const gone = new Set(rows.map(({ seq }) => seq));
    const before = this.ready.length;
    this.ready = this.ready.filter(({ seq }) => !gone.has(seq));
    return { fence: undefined, affected: before - this.ready.length };
  }
}

/** The store whose roles it all has. */
export function storeOf(stub: StubStore): OutboxStore {
  return Object.fromEntries(ROLES.map((role) => [role, stub])) as unknown as OutboxStore;
}

/** Every read returns objects of its own, as a database does. */
function again(row: OutboxMessage): OutboxMessage {
  return new OutboxMessage(row);
}

export type RelayUnderTest = ReturnType<typeof createTransportRelay>;

/** One relay over a {@link StubStore} on a clock of its own; `steps` stands for the loops, which do not run. */
export function createTransportRelay(
  given: Partial<OutboxOptions> = {},
  transport = new ScriptedTransport(),
  buckets = 4,
) {
  const ordering = given.ordering ?? 'key';
  const options = resolveOptions({ transports: { default: transport }, buckets, ...given }, {});
  const clock = new FakeClock();
  const store = new StubStore(ordering === 'global' ? 1 : buckets);
  const hooks = new RecordedHooks();
  const leases = leasesOf({ store: storeOf(store), clock, options }, 'me', {});
  const relay = new TransportRelay({
    name: 'default',
    id: 0,
    transport,
    store: storeOf(store),
    leases,
    options: transportRelayOptions(options),
    clock,
    random: () => 0.5,
    hooks,
    died: () => undefined,
  });
  const errors: unknown[] = [];
  const loops = new RelayLoops(
    relay,
    (_operation, error) => {
      errors.push(error);
      return options.pollInterval;
    },
    () => undefined,
  );
  return { relay, loops, store, transport, leases, clock, hooks, options, errors };
}

/** Holds all its buckets, and may read them. */
export async function leased(under: RelayUnderTest): Promise<RelayUnderTest> {
  await under.leases.runOnce();
  await under.relay.openBuckets();
  return under;
}

/** As after a pause that was longer than the lease: all lost, and all acquired again under new epochs. */
export async function loseAndRegain({ leases, store }: RelayUnderTest): Promise<void> {
  for (const lease of store.leases.values()) lease.owner = null;
  leases.renewedAt = -Infinity;
  await leases.runOnce();
}

/** Lets everything run that waits for no timer. */
export async function turn(): Promise<void> {
  for (let i = 0; i < 3; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** A promise that the test settles. */
export function gate<T = void>(): { readonly opened: Promise<T>; open(value: T): void; fail(error: Error): void } {
  let open!: (value: T) => void;
  let fail!: (error: Error) => void;
  const opened = new Promise<T>((resolve, reject) => {
    open = resolve;
    fail = reject;
  });
  return { opened, open, fail };
}
