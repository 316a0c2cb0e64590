import type { Roles } from '../../store/outbox-store.js';
import type { Clock } from '../../time/clock.js';

interface Job {
  /** Whose messages are freed, and in which buckets; `null`: all. */
  readonly topics: Set<string> | null;
  readonly buckets: ReadonlySet<number> | null;
  from: string | null;
  /** The first part in which somebody had a row locked. */
  again: string | undefined;
  /** Milliseconds for which it rests before it looks there again, and until when. */
  rest: number;
  restsUntil: number;
}

/**
 * Makes due what was put off without a try, as what it waited for is back; part by part, so that what is due meanwhile gets
 * its turn. So it does for buckets that were leased just now: what their former owner waited for may be back since. What
 * somebody else had locked it looks for again, after a rest. New work is done together with what is left, from the beginning: a
 * message that is freed too early is put off once more.
 */
export class Freeing {
  private job: Job | undefined;

  constructor(
    private readonly relay: { readonly id: number; readonly store: Roles<'parked'>; readonly clock: Clock },
  ) {}

  /** Milliseconds until the next part can be brought; `undefined`: there is none. */
  get dueIn(): number | undefined {
    return this.job && Math.max(0, this.job.restsUntil - this.relay.clock.monotonic());
  }

  get isOn(): boolean {
    return this.dueIn === 0;
  }

  add(topics: Iterable<string> | null, buckets: Iterable<number> | null = null): void {
    const { job } = this;
    this.job = { ...NEW, topics: union(job?.topics, topics), buckets: union(job?.buckets, buckets) };
  }

  /** What these wait for is away again: they are left as they are, and freed when it is back the next time. */
  without(topic: string): void {
    const topics = this.job?.topics;
    if (topics?.delete(topic) === true && topics.size === 0) this.job = undefined;
  }

  /** The next part. @param held buckets @returns rows that are due now */
  async next(held: readonly number[]): Promise<number> {
    const { id, store, clock } = this.relay;
    const { job } = this;
    if (job === undefined || !this.isOn) return 0;
    const buckets = held.filter((bucket) => job.buckets?.has(bucket) !== false);
    const topics = job.topics && [...job.topics];
    const { hastened, passed, next } = await store.parked.hasten(id, buckets, { topics, from: job.from, limit: PART });
    if (passed > 0) job.again ??= job.from ?? '0';
    job.from = next;
    if (next !== null) return hastened;
    if (job.again !== undefined) {
      job.restsUntil = clock.monotonic() + job.rest;
      Object.assign(job, { from: job.again, again: undefined, rest: Math.min(2 * job.rest, LONGEST_REST) });
    } else if (this.job === job) this.job = undefined;
    return hastened;
  }
}

/** `null`: all. */
function union<T>(some: ReadonlySet<T> | null | undefined, more: Iterable<T> | null): Set<T> | null {
  return some === null || more === null ? null : new Set([...(some ?? []), ...more]);
}

/** Rows: some tens of milliseconds. */
const PART = 2_000;
/** Milliseconds before it looks again for what was locked: the first time, and at most. */
const [FIRST_REST, LONGEST_REST] = [100, 10_000];
const NEW = { from: null, again: undefined, rest: FIRST_REST, restsUntil: -Infinity };
