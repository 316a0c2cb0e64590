import type { OutboxOptions } from '../../lib/index.js';
import { drawFaults, drawRefusal, type PlannedFault, type Rates } from './plan-faults.js';
import { withHeldSnapshot } from './plan-held.js';
import { withHours } from './plan-hours.js';
import { withMissing } from './plan-missing.js';
import { withPauses } from './plan-pauses.js';
import {
  withBytes,
  withFailover,
  withFewKeys,
  withFutureLease,
  withLateLoad,
  withNumbers,
  withScans,
  withSecond,
} from './plan-variants.js';
import { Random } from './random.js';
import type { HeldSnapshot } from './store/memory-dead.js';

export interface PlannedMessage {
  readonly n: number;
  /** How often the broker refuses it. */
  readonly refused: number;
  /** Milliseconds until it is due; `null`: at once. */
  readonly delay: number | null;
  /** Milliseconds that its transaction does something else after it. */
  readonly pause: number;
  /** Milliseconds from its number to its row; only where the two are apart (InnoDB). */
  readonly insert: number;
}
export interface PlannedTransaction {
  /** Milliseconds since the end of the writer's last one. */
  readonly pause: number;
  readonly messages: readonly PlannedMessage[];
  /** Milliseconds from its last message to its end. */
  readonly hold: number;
  readonly rollback: boolean;
  /** Milliseconds from its commit until it is on disk. */
  readonly asynchronous: number;
}
/** Strictly one transaction after the other. */
export interface PlannedWriter {
  readonly key: string | null;
  /** Where its messages go; absent: to the default. */
  readonly transport?: string;
  readonly transactions: readonly PlannedTransaction[];
}
/** Of an operator. */
export interface PlannedAct {
  readonly at: number;
  readonly what: 'requeue' | 'discard' | 'cancel' | 'release' | 'unlock';
  readonly key: string;
  readonly limit: number;
}
export interface PlannedRelay {
  readonly slot: number;
  readonly at: number;
}

/** Everything about a history that is decided before it begins: data, so that it can be cut down to what a violation needs. */
export interface Plan {
  readonly seed: number;
  /** Milliseconds of load and faults. */
  readonly turmoil: number;
  /** What reads prove about open transactions: PostgreSQL's snapshots, or what InnoDB's dirty reads say. */
  readonly floor: 'snapshot' | 'probe';
  readonly atomicRuns: boolean;
  readonly options: Partial<OutboxOptions>;
  readonly rates: Rates;
  readonly relays: readonly PlannedRelay[];
  readonly writers: readonly PlannedWriter[];
  readonly acts: readonly PlannedAct[];
  readonly faults: readonly PlannedFault[];
  /** Number of the message that kills every process which is handed it; `null`: none does. */
  readonly lethal: number | null;
  /** Of each payload; absent: a few. */
  readonly bytes?: number;
  /** Blocked keys that a relay has room for; absent: all. */
  readonly knownKeys?: number;
  /** Milliseconds from one look at everything to the next; absent: as in production. */
  readonly scanEvery?: number;
  /** Messages go to several, which may be missing, and the broker answers which; each key to one, where nothing else goes wrong. */
  readonly destinations?: 'mixed' | 'by key';
  /** Of snapshots that somebody holds, what they cost; absent: a row that is gone costs nothing that anybody feels. */
  readonly held?: HeldSnapshot;
  /** Of the faults of single statements and publishes, which are drawn on the way, only these; absent: all. */
  readonly only?: ReadonlySet<string>;
}

interface Size {
  readonly turmoil: number;
  /** Of a writer, at most. */
  readonly transactions: number;
  readonly counts: readonly number[];
}
const SMALL: Size = { turmoil: 3_000, transactions: 4, counts: [1, 1, 2, 3] };
const MIDDLE: Size = { turmoil: 8_000, transactions: 8, counts: [1, 1, 2, 5] };
const LARGE: Size = { turmoil: 20_000, transactions: 20, counts: [1, 2, 5, 20] };
const SIZES = [...Array<Size>(8).fill(SMALL), ...Array<Size>(5).fill(MIDDLE), LARGE];
const MAX_ATTEMPTS = 3;

/** @param noScan nobody looks at everything; numbers that go back are left out, whose rows may wait for that */
export function drawPlan(seed: number, noScan = false): Plan {
  const plan = drawWhole(seed);
  if (!noScan) return plan;
  const faults = plan.faults.filter(({ kind }) => kind !== 'numbers go back' && kind !== 'table emptied');
  return { ...plan, faults, scanEvery: Infinity };
}

function drawWhole(seed: number): Plan {
  const plan = withNumbers(withFewKeys(withBytes(withPauses(drawBase(seed)))));
  const later = withLateLoad(withScans(withFutureLease(withFailover(plan))));
  return withHours(withMissing(withHeldSnapshot(later)));
}

function drawBase(seed: number): Plan {
  const random = Random.of(seed, 'plan');
  const size = random.pick(SIZES);
  const options = drawOptions(random);
  const floor = random.chance(0.35) ? 'probe' : 'snapshot';
  const slots = random.pick([1, 2, 2, 3]);
  const relays = Array.from({ length: slots }, (_, slot) => ({ slot, at: random.between(0, slot === 0 ? 50 : 1_500) }));
  const keys = random.whole(1, 4);
  const writers = drawWriters(Random.of(seed, 'writers'), size, keys, floor);
  const acts = random.chance(0.4) ? drawActs(Random.of(seed, 'acts'), size, keys) : [];
  const { faults, rates } = drawFaults(Random.of(seed, 'faults'), size.turmoil, slots);
  const refusal = drawRefusal(Random.of(seed, 'refusal'), size.turmoil);
  const atomicRuns = random.chance(0.4);
  const lethal = options.coordination === 'rowLock' ? null : drawLethal(Random.of(seed, 'lethal'), writers);
  // An operator could bring it back for ever.
  const allowed = lethal === null ? acts : [];
  const plan: Plan = {
    seed,
    turmoil: Math.max(size.turmoil, refusal === undefined ? 0 : refusal.at + refusal.ms),
    floor,
    atomicRuns,
    options,
    rates,
    relays,
    writers,
    acts: allowed,
    faults: refusal === undefined ? faults : [...faults, refusal],
    lethal,
  };
  return withSecond(plan, () => drawWriters(Random.of(seed, 'second writers'), size, keys, floor));
}

function drawLethal(random: Random, writers: readonly PlannedWriter[]): number | null {
  const messages = writers.flatMap(({ transactions }) => transactions).flatMap((transaction) => transaction.messages);
  return random.chance(0.03) ? random.pick(messages).n : null;
}

function drawOptions(random: Random): Partial<OutboxOptions> {
  const ordering = random.pick(['key', 'key', 'key', 'key', 'key', 'global', 'none'] as const);
  const coordination = random.chance(0.15)
    ? 'leader'
    : ordering === 'none' && random.chance(0.6)
      ? 'rowLock'
      : 'buckets';
  const [lease, publishTimeout] = random.pick([
    ['10s', '1s'],
    ['12s', '2s'],
    ['15s', '3s'],
  ] as const);
  return {
    ordering,
    coordination,
    lease,
    publishTimeout,
    buckets: random.pick([1, 2, 4]),
    pollInterval: random.pick([100, 300, 500, 1_000]),
    batchSize: random.pick([2, 10, 100]),
    batchesInFlight: random.pick([1, 2, 4]),
    onPublished: random.pick(['delete', 'archive']),
    onDead: random.pick(['block', 'skip']),
    retry: { initial: 20, max: 500, maxAttempts: MAX_ATTEMPTS },
  };
}

function drawWriters(random: Random, size: Size, keys: number, floor: Plan['floor']): PlannedWriter[] {
  const scheduling = random.chance(0.3);
  const dawdle = random.pick([5, 50, 300, 1_000]);
  let n = 0;
  const message = (poisonous: boolean): PlannedMessage => ({
    n: (n += 1),
    refused: poisonous && random.chance(0.12) ? random.pick([1, 2, 9]) : 0,
    delay: scheduling && random.chance(0.15) ? random.between(0, size.turmoil / 2) : null,
    pause: random.chance(0.5) ? random.between(0, dawdle) : 0,
    insert: floor === 'probe' && random.chance(0.3) ? random.pick([1, 30, 1_500, 20_000]) * random.next() : 0,
  });
  const transaction = (poisonous: boolean): PlannedTransaction => ({
    pause: random.chance(0.15) ? random.between(0, size.turmoil / 3) : random.between(0, 150),
    messages: Array.from({ length: random.pick(size.counts) }, () => message(poisonous)),
    hold: random.chance(0.1) ? random.between(0, 3_000) : random.between(0, 20),
    rollback: random.chance(0.1),
    asynchronous: random.chance(0.05) ? random.between(0, 600) : 0,
  });
  const writers = Array.from({ length: random.whole(1, 5) }, (_, index) => {
    const poisonous = random.chance(0.35);
    const key = random.chance(0.15) ? null : `k${index < keys ? index : random.whole(0, keys - 1)}`;
    return {
      key,
      transactions: Array.from({ length: random.whole(1, size.transactions) }, () => transaction(poisonous)),
    };
  });
  if (random.chance(0.05)) writers.push({ key: null, transactions: [{ ...transaction(false), hold: size.turmoil }] });
  return writers;
}

function drawActs(random: Random, size: Size, keys: number): PlannedAct[] {
  return Array.from({ length: random.whole(1, 6) }, () => ({
    at: random.between(0, size.turmoil * 1.2),
    what: random.pick(['requeue', 'discard', 'cancel', 'release', 'unlock'] as const),
    key: `k${random.whole(0, keys)}`,
    limit: random.whole(1, 5),
  }));
}
