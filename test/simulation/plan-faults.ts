import type { Random } from './random.js';

export type BrokerFault = 'broker away' | 'broker refuses' | 'broker blocks' | 'broker silent' | 'broker unreachable';
export type DatabaseFault =
  | 'database away'
  | 'database crash'
  | 'numbers go back'
  | 'table emptied'
  | 'failover'
  | 'snapshot held'
  | 'statements fail';
export type FaultKind =
  | BrokerFault
  | DatabaseFault
  | 'destination missing'
  | 'paused'
  | 'kill'
  | 'freeze'
  | 'sleep'
  | 'restart'
  | 'clock step'
  | 'lease in the future';

export interface PlannedFault {
  readonly at: number;
  readonly kind: FaultKind;
  /** Whom it hits, where it hits one. */
  readonly slot: number;
  /** How long it lasts; of a clock, how far it is set. */
  readonly ms: number;
  /** Which statements fail. */
  readonly operation?: string;
  /** Whose broker; absent: the default's. */
  readonly transport?: string;
  /** Which of its destinations, or messages with which topic. */
  readonly topic?: string;
  /** Messages with which key. */
  readonly key?: string;
  /** Not at its time, but with the first of these that its process sends after it: a publish, or a statement by its name. */
  readonly when?: string;
  /** Milliseconds from then. */
  readonly after: number;
}

/** Shares of all statements and of all publishes that go wrong by themselves. */
export interface Rates {
  readonly lostRequests: number;
  readonly lostReplies: number;
  /** Executed long after the client gave up. */
  readonly lateRequests: number;
  /** Refused by a database that is up: a deadlock, a time-out. */
  readonly errors: number;
  readonly slow: number;
  /** The connection breaks somewhere in the batch: some arrive, some receipts do not. */
  readonly breaks: number;
  readonly hangs: number;
  /** Answered only after a while. */
  readonly laggards: number;
  /** What stayed behind in a buffer arrives after its connection was torn down. */
  readonly lateArrivals: number;
}

export const NO_RATES: Rates = {
  lostRequests: 0,
  lostReplies: 0,
  lateRequests: 0,
  errors: 0,
  slow: 0,
  breaks: 0,
  hangs: 0,
  lateArrivals: 0,
  laggards: 0,
};

const KINDS: readonly FaultKind[] = [
  'kill',
  'kill',
  'freeze',
  'freeze',
  'freeze',
  'sleep',
  'restart',
  'clock step',
  'clock step',
  'database away',
  'database crash',
  'statements fail',
  'statements fail',
  'broker away',
  'broker away',
  'broker blocks',
];
/** What a broker that is away may look like: nobody listens, connections but no writes, a request to wait, no answers, not even to a connection. */
export const BROKER_FAULTS: readonly BrokerFault[] = [
  'broker away',
  'broker refuses',
  'broker blocks',
  'broker silent',
  'broker unreachable',
];
/** Of the numbers of messages. */
export const isOfNumbers = (kind: string): boolean => ['numbers go back', 'table emptied', 'failover'].includes(kind);
export const isOfBroker = (kind: string): boolean => (BROKER_FAULTS as readonly string[]).includes(kind);

const OPERATIONS = ['settle', 'settleParked', 'park', 'repark', 'take', 'fetch', 'renew', 'acquire', 'commitRows'];

/** What is most easily broken when something happens in its middle. */
const MOMENTS = [
  'publish',
  'publish',
  'publish',
  'connect',
  'connect',
  'settle',
  'park',
  'repark',
  'take',
  'sweep',
  'acquire',
  'renew',
  'commitRows',
];

/** Two histories of ten have none: what is published twice there has no excuse. */
export function drawFaults(random: Random, turmoil: number, slots: number): { faults: PlannedFault[]; rates: Rates } {
  if (random.chance(0.08)) return leaseTrouble(random, turmoil, slots);
  const harsh = random.chance(0.8);
  const share = (most: number): number => (harsh && random.chance(0.5) ? random.between(0, most) : 0);
  const rates: Rates = {
    lostRequests: share(0.03),
    lostReplies: share(0.03),
    lateRequests: share(0.015),
    errors: share(0.02),
    slow: random.pick([0, 0, 0.05, 0.2]),
    breaks: share(0.1),
    hangs: share(0.03),
    lateArrivals: share(0.03),
    laggards: random.pick([0, 0, 0.05, 0.3]),
  };
  const count = harsh ? random.whole(0, 5) : 0;
  const faults: PlannedFault[] = [];
  for (let n = 0; n < count; n += 1) {
    const before = faults.at(-1)?.at;
    // Half of them come together: what one leaves open, the next one hits.
    const at =
      before !== undefined && random.chance(0.5) ? before + random.between(0, 800) : random.between(0, turmoil);
    faults.push(fault(random, at, slots));
  }
  return { rates, faults };
}

/** One history in ten has a broker that takes connections and no writes for a while: too few replicas, a full disk. */
export function drawRefusal(random: Random, turmoil: number): PlannedFault | undefined {
  if (!random.chance(0.1)) return undefined;
  return { at: random.between(0, turmoil), kind: 'broker refuses', slot: 0, ms: random.between(500, 15_000), after: 0 };
}

/**
 * Leases that are lost and had again at once, by the same process, while an answer of the broker or the write of a verdict is
 * outstanding: frozen past the lease with nobody else there, or by a clock that runs ahead when some buckets are newer.
 */
function leaseTrouble(random: Random, turmoil: number, slots: number): { faults: PlannedFault[]; rates: Rates } {
  const jumps = slots > 1;
  const lost = random.pick([0.1, 0.2, 0.3]);
  const rates: Rates = { ...NO_RATES, lostRequests: jumps ? 0.01 : lost, errors: 0.05, slow: 0.05, laggards: 0.5 };
  const faults = Array.from({ length: 5 }, (_, n): PlannedFault => {
    const at = random.between(0, turmoil * 0.8);
    const slot = random.whole(0, slots - 1);
    if (!jumps) {
      const [when, after] = [random.pick(['park', 'park', 'repark']), random.between(0, 20)];
      if (n === 0 && random.chance(0.5)) return { at: at / 2, slot, kind: 'clock step', ms: -20_000, after: 0 };
      return { at, slot, kind: 'freeze', ms: random.between(15_000, 18_000), when, after };
    }
    if (n % 2 === 0)
      return { at, slot, kind: random.pick(['restart', 'kill']), ms: random.between(10, 1_000), after: 0 };
    const [when, after] = ['acquire', random.between(100, 2_000)];
    return { at, slot, kind: 'clock step', ms: random.between(5_000, 15_000), when, after };
  });
  return { rates, faults };
}

function fault(random: Random, at: number, slots: number): PlannedFault {
  const kind = random.pick(KINDS);
  const slot = random.whole(0, slots - 1);
  const when = random.chance(0.5) ? random.pick(MOMENTS) : undefined;
  const after = random.chance(0.7) ? random.between(0, 3) : random.between(0, 300);
  const base = { at, kind, slot, after, ...(when === undefined ? {} : { when }) };
  if (kind !== 'statements fail') return { ...base, ms: length(random, kind) };
  return { ...base, ms: random.between(100, 4_000), operation: random.pick(OPERATIONS) };
}

function length(random: Random, kind: FaultKind): number {
  switch (kind) {
    case 'kill':
      return random.between(10, 8_000); // until somebody starts it again
    case 'restart':
      return random.between(0, 2_000);
    case 'freeze':
    case 'sleep':
      return random.chance(0.5) ? random.between(50, 4_000) : random.between(8_000, 18_000); // past the leases
    case 'clock step':
      return (random.chance(0.6) ? 1 : -1) * random.pick([1_000 * random.next(), 20_000, 18_000_000 * random.next()]);
    case 'database crash':
      return random.between(100, 3_000);
    default:
      return random.chance(0.7) ? random.between(100, 4_000) : random.between(4_000, 15_000);
  }
}
