import type { Roles } from '../../store/outbox-store.js';
import type { Away } from './destinations.js';

interface Job {
  readonly topics: ReadonlySet<string> | null;
  readonly buckets: ReadonlySet<number> | null;
  from: string | null;
}

/** What there is to do at one moment. */
export interface Jobs {
  readonly back: Job | undefined;
  readonly gained: Job | undefined;
}

/**
 * Makes due what was put off without a try, as what it waited for is back; part by part, so that what is due meanwhile gets
 * its turn. So it does for buckets that were leased just now: what their former owner waited for may be back since.
 */
export class Freeing {
  /** @internal */ back: Job | undefined;
  /** @internal */ gained: Job | undefined;

  constructor(readonly relay: { readonly id: number; readonly store: Roles<'parked'> }) {}

  get isOn(): boolean {
    return this.back !== undefined || this.gained !== undefined;
  }

  /** @param topics `null`: of all; those that are freed already are looked through once more with the new ones */
  add(topics: ReadonlySet<string> | null): void {
    const before = this.back === undefined ? [] : this.back.topics;
    const all = topics === null || before === null ? null : new Set([...before, ...topics]);
    this.back = { topics: all, buckets: null, from: null };
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
    this.gained = { topics: null, buckets: new Set([...(this.gained?.buckets ?? []), ...buckets]), from: null };
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
    const job = this.back ?? this.gained;
    if (job === undefined) return 0;
    const held = job.buckets === null ? buckets : buckets.filter((bucket) => job.buckets?.has(bucket));
    const topics = job.topics === null ? null : [...job.topics];
    const { id, store } = this.relay;
    const { hastened, next } = await store.parked.hasten(id, held, { topics, from: job.from, limit: PART });
    job.from = next;
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
