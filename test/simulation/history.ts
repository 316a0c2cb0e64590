import { compareSeq } from '../../lib/outbox-message.js';
import type { MemoryTransaction } from './store/memory-transaction.js';

/** What one message went through, as everybody outside the relay saw it. */
export class Fate {
  /** When its commit took effect. */
  committed: number | undefined = undefined;
  /** Times at which the broker took it. */
  readonly taken: number[] = [];
  /** Start of its first publish. */
  attempted: number | undefined = undefined;
  /** Its publishes: by whom, and under which epoch as far as the database knew; the last one first. */
  under: Attempt | undefined = undefined;
  /** Under which the broker's receipt came, the last one. */
  receipt: Attempt | undefined = undefined;
  /** Of these, those that the broker refused. */
  refusals: Attempt | undefined = undefined;
  /** It was out when its connection was torn down: the broker may have it, and nobody knows. */
  doubtful = false;
  /** Failures that were its own. */
  refused = 0;
  /** Leases that ran out while it was on trial: whoever takes over charges it with its owner's end. */
  poison = 0;
  /** Connections that broke while it was out alone, and another message got through after it. */
  strikes = 0;
  deaths = 0;
  /** Times of those of its deaths that the dead-letter hook did not refuse to hear of. */
  readonly heard = new Set<number>();
  /** Of its refusals those before its last requeue: they do not count any more. */
  forgiven = 0;
  /** Of its row when it was written; absent: it was not, or is scheduled. */
  seq: string | undefined;
  /** Its row was in a table that was emptied. */
  emptied = false;
  /** A failover lost its commit. */
  lost = false;
  /** By an operator, who heard "done". */
  removed: number | undefined = undefined;
  /** Of a scheduled one: what blocked its key when it fell due. */
  behind: readonly Fate[] = [];
  /** Times that its row was moved to the parked table. */
  parked = 0;
  /** When that happened last. */
  parkedAt = -Infinity;
  /** When its row was marked there as being sent, the last time. */
  markedAt = -Infinity;
  /** Milliseconds from its number to its row. */
  insertTook = 0;

  constructor(
    readonly id: string,
    readonly key: string | null,
    /** What must not overtake it, and what it must not: the key, one for all in a global order, or nothing. */
    readonly gate: string | null,
    readonly name: string,
    /** Was not to be published at once: it holds nobody, and nobody it. */
    readonly scheduled: boolean,
    /** When its transaction began. */
    readonly began: number,
    /** Place within its transaction. */
    readonly index: number,
    readonly transaction: number,
    readonly writer: MemoryTransaction,
  ) {}
}

export interface Attempt {
  readonly by: string;
  readonly epoch: bigint;
  readonly before: Attempt | undefined;
}

/** What a fault may explain: that something is published twice. */
export interface Excuse {
  /** Milliseconds for which it may have an effect. */
  readonly ms: number;
  /** Of this process only; `undefined`: of all. */
  readonly by: string | undefined;
  /** It explains nothing. */
  readonly none?: boolean;
}
export const NO_EXCUSE: Excuse = { ms: 0, by: undefined, none: true };
export interface FaultSeen extends Excuse {
  readonly kind: string;
  readonly from: number;
  readonly until: number;
}
const MOST = 20;
/** What is promised when a replica is promoted that does not have the last commits: nothing it has is lost, or stands still. */
const AFTER_FAILOVER: ReadonlySet<number> = new Set([1, 2, 14, 15, 17]);

/** The facts of one history, written down as they happen and judged on the way and at its end. */
export class History {
  readonly fates = new Map<string, Fate>();
  /** Sightings at the broker, in its order. */
  readonly sightings: Fate[] = [];
  readonly faults = new Map<string, number>();
  readonly seen: FaultSeen[] = [];
  /** Faults of single statements and publishes, by name: what a plan may be cut down to. */
  readonly drawn: string[] = [];
  readonly violations: string[] = [];
  /** Everything that happened, for whoever has to understand a violation. */
  readonly trace: string[] = [];
  /** Keys that an operator let go on past their dead messages. */
  readonly touched = new Set<string>();
  /** Keys of which an operator brought messages back: what was published behind them meanwhile is in front of them. */
  readonly requeued = new Set<string>();
  /** A failover lost leases and verdicts as well: until each holds what it believes, only loss and standstill are judged. */
  failedOver = false;
  /** A relay said that a message may have been overtaken. */
  overtaken = false;
  /** When a relay began to read anew, a bucket or all: what left before it does not know. */
  readonly begun: number[] = [];
  /** Whose statement is taking effect. */
  actor = '';
  /** Milliseconds that sweeps walked between two fetches of a process, at most. */
  longestSweep = 0;
  /** By process, since its last fetch. @internal */
  readonly sweeping = new Map<string, number>();
  /** Milliseconds: the longest that a circuit wanted to wait. */
  longestProbe = 0;

  constructor(
    readonly now: () => number,
    readonly traced: boolean,
    readonly only: ReadonlySet<string> | undefined,
  ) {}

  tell(text: string): void {
    if (this.traced) this.trace.push(`${this.now().toFixed(1).padStart(9)}  ${text}`);
  }

  /** A statement of a process walked for so long. Nothing is read while sweeps go on. */
  readStood(process: string, operation: string, ms: number): void {
    if (operation === 'fetch') this.sweeping.delete(process);
    if (operation !== 'sweep') return;
    const sum = (this.sweeping.get(process) ?? 0) + ms;
    this.sweeping.set(process, sum);
    this.longestSweep = Math.max(this.longestSweep, sum);
  }

  fault(kind: string, about: string, excuse: Excuse): void {
    this.faults.set(kind, (this.faults.get(kind) ?? 0) + 1);
    this.seen.push({ ...excuse, kind, from: this.now(), until: this.now() + excuse.ms });
    this.tell(`fault: ${kind} ${about}`);
  }

  /** @returns whether it happens in this plan */
  chance(kind: string, name: string, excuse: Excuse): boolean {
    if (this.only !== undefined && !this.only.has(name)) return false;
    this.drawn.push(name);
    this.fault(kind, name, excuse);
    return true;
  }

  /** Whether a fault may have made these processes publish something twice in this time, or lose a lease. */
  isExcused(by: readonly string[], from: number, until: number): boolean {
    return this.seen.some(
      (fault) =>
        fault.none !== true &&
        fault.from <= until &&
        fault.until >= from &&
        (fault.by === undefined || by.includes(fault.by)),
    );
  }

  /** @param invariant its number in docs/design.md */
  violated(invariant: number, what: string): void {
    if (this.failedOver && !AFTER_FAILOVER.has(invariant)) return;
    this.tell(`VIOLATION of invariant ${invariant}: ${what}`);
    if (this.violations.length < MOST) this.violations.push(`invariant ${invariant}: ${what}`);
  }
}

/** A commit's return before the other's begin, or an earlier place in the same transaction; where numbers went back between them, nobody can know. */
export function precedes(a: Fate, b: Fate): boolean {
  if (a.seq !== undefined && b.seq !== undefined && compareSeq(a.seq, b.seq) > 0) return false;
  if (a.transaction === b.transaction) return a.index < b.index;
  return a.committed !== undefined && a.committed < b.began;
}

/**
 * Where sweeps cost too much, an INSERT has 2 s: the others of its key do not wait for longer. That is told, unless whoever finds its
 * row began to read anew meanwhile.
 */
export function mayBePassed({ faults, overtaken, begun }: History, late: Fate, other: Fate): boolean {
  if (!faults.has('snapshot held') || late.insertTook <= 2_000) return false;
  const [from, to] = [other.attempted ?? 0, late.attempted ?? Infinity];
  return overtaken || begun.some((at) => at >= from && at <= to);
}

/** So many may be taken for one failure of its own. */
export const STRIKES = 3;

/** Since its last requeue, at most. */
export const ownFailures = ({ refused, forgiven, strikes, poison }: Fate): number =>
  refused - forgiven + Math.floor(strikes / STRIKES) + poison;
