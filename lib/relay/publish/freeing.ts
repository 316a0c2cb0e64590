import type { Roles } from '../../store/outbox-store.js';
import type { Clock } from '../../time/clock.js';
import type { Away } from './destinations.js';

interface Job {
  readonly topics: ReadonlySet<string> | null;
  readonly buckets: ReadonlySet<number> | null;
  from: string | null;
  /** The first part in which somebody had a row locked. */
  again: string | undefined;
  /** Milliseconds for which it rests before it looks there again, and until when. */
  rest: number;
  restsUntil: number;
}

/** What there is to do at one moment. */
export interface Jobs {
  readonly back: Job | undefined;
  readonly gained: Job | undefined;
}

/**
 * Makes due what was put off without a try, as what it waited for is back; part by part, so that what is due meanwhile gets
 * its turn. So it does for buckets that were leased just now: what their former owner waited for may be back since. What
 * somebody else had locked it looks for again, after a rest.
 */
export class Freeing {
  private back: Job | undefined;
  private gained: Job | undefined;

  constructor(readonly relay: { readonly id: number; readonly store: Roles<'parked'>; readonly clock: Clock }) {}

  get isOn(): boolean {
    return this.dueIn === 0;
  }

  /** Milliseconds until the next part can be brought; `undefined`: there is none. */
  get dueIn(): number | undefined {
    const now = this.relay.clock.monotonic();
    const rests = [this.back, this.gained].flatMap((job) => (job === undefined ? [] : [job.restsUntil - now]));
    return rests.length === 0 ? undefined : Math.max(0, Math.min(...rests));
  }

  /** @param topics `null`: of all; those that are freed already are looked through once more with the new ones */
  add(topics: ReadonlySet<string> | null): void {
    const before = this.back === undefined ? [] : this.back.topics;
    const all = topics === null || before === null ? null : new Set([...before, ...topics]);
    this.back = { ...NEW, topics: all, buckets: null };
  }

  /** What it waits for is away again: the others of it are left as they are, and freed when it is back the next time. */
  without(topic: string): void {
    const topics = this.back?.topics;
    if (topics?.has(topic) !== true) return;
    const left = new Set(topics);
    left.delete(topic);
    this.back = left.size === 0 ? undefined : { ...(this.back as Job), topics: left };
  }

  gain(buckets: readonly number[]): void {
    this.gained = { ...NEW, topics: null, buckets: new Set([...(this.gained?.buckets ?? []), ...buckets]) };
  }

  get jobs(): Jobs {
    return { back: this.back, gained: this.gained };
  }

  /** Nothing waits at all, said an answer to what was asked when these were all. What came since is not in it. */
  drop({ back, gained }: Jobs): void {
    if (this.back === back) this.back = undefined;
    if (this.gained === gained) this.gained = undefined;
  }

  /** The next part. @param buckets those that are held @returns rows that are due now */
  async next(buckets: readonly number[]): Promise<number> {
    const { id, store, clock } = this.relay;
    const job = [this.back, this.gained].find((each) => each !== undefined && each.restsUntil <= clock.monotonic());
    if (job === undefined) return 0;
    const held = job.buckets === null ? buckets : buckets.filter((bucket) => job.buckets?.has(bucket));
    const topics = job.topics === null ? null : [...job.topics];
    const { hastened, passed, next } = await store.parked.hasten(id, held, { topics, from: job.from, limit: PART });
    if (passed > 0) job.again ??= job.from ?? '0';
    job.from = next;
    if (next === null && job.again !== undefined) {
      job.restsUntil = clock.monotonic() + job.rest;
      Object.assign(job, { from: job.again, again: undefined, rest: Math.min(2 * job.rest, LONGEST_REST) });
      return hastened;
    }
    if (next === null && this.back === job) this.back = undefined;
    if (next === null && this.gained === job) this.gained = undefined;
    return hastened;
  }

  /** A few for one that is away still, so that one of them can be tried. */
  async some(away: Away, buckets: readonly number[]): Promise<number> {
    const topics = away.topics === null ? null : [...away.topics];
    const { id, store } = this.relay;
    const { hastened, next } = await store.parked.hasten(id, buckets, { topics, from: away.from, limit: FEW });
    away.from = next;
    if (hastened === 0 && next !== null) away.lookAgain = 0;
    return hastened;
  }
}

/** Rows: some tens of milliseconds. */
const PART = 2_000;
const FEW = 100;
/** Milliseconds before it looks again for what was locked: the first time, and at most. */
const [FIRST_REST, LONGEST_REST] = [100, 10_000];
const NEW = { from: null, again: undefined, rest: FIRST_REST, restsUntil: -Infinity };
