import { OutboxError } from '../outbox.errors.js';
import { perBucket } from '../store/admin-store.js';
import type { Roles } from '../store/outbox-store.js';
import type { Counts } from './health.js';
import { seeRelays } from './seen-relays.js';
import { Standing, type Standstill } from './standing.js';
import { statsOf, type OutboxTransportStats } from './stats.js';

/** Beyond that a count says that there are more. */
const LIMIT = 1_000;
/** Milliseconds. */
const TIMEOUT = 1_000;
/** Buckets that one look takes in; of more each look takes the next ones. */
const BUCKETS = 64;

export interface ProbeSettings {
  /** Milliseconds. */
  readonly lease: number;
  readonly buckets: number;
  /** name → number of the transports that this process knows */
  readonly ids: ReadonlyMap<string, number>;
  /** Milliseconds that only grow. */
  readonly now: () => number;
  /** Up to where nothing of a transport's buckets is ready, as far as this process knows now; asked once in a look. */
  readonly goneUpTo: (transport: number) => (bucket: number) => string;
}

/** What `health()` asks of the database, whatever waits there, and how it compares with what it found before. */
export class Probe {
  private readonly standing = new Standing();
  private readonly buckets: readonly number[];
  private turn = 0;
  /** When a look begins at the beginning again, and finds what stands below everything that is known. */
  private wholeAt: number;
  private last: Counts | undefined;

  constructor(
    readonly store: Roles<'admin' | 'leases'>,
    readonly settings: ProbeSettings,
  ) {
    this.buckets = Array.from({ length: settings.buckets }, (_, bucket) => bucket);
    this.wholeAt = settings.now() + 2 * settings.lease;
  }

  async ask(): Promise<Counts> {
    const { store, settings } = this;
    const { ids } = settings;
    const from = (this.turn++ % Math.ceil(this.buckets.length / BUCKETS)) * BUCKETS;
    const buckets = this.buckets.length <= BUCKETS ? this.buckets : this.buckets.slice(from, from + BUCKETS);
    const isWhole = settings.now() >= this.wholeAt;
    const after = isWhole ? () => '0' : this.after();
    const asked = store.admin.stats({ limit: LIMIT, within: TIMEOUT, look: { buckets, after } }).catch(undefinedIfLate);
    const [all, beat] = await Promise.all([asked, store.leases.living('gone')]);
    const now = settings.now();
    if (isWhole) this.wholeAt = now + 2 * settings.lease * (all === undefined ? SELDOM : 1);
    // Only the look from the beginning may have come past too much: the next one does not.
    if (all === undefined) return (isWhole ? this.last : undefined) ?? { late: TIMEOUT };
    this.standing.looked(all, buckets, now);
    const transports: Record<string, OutboxTransportStats> = Object.create(null) as typeof transports;
    const standing = new Map<string, Standstill>();
    const most = perBucket(LIMIT, buckets);
    const relays = seeRelays(beat, new Map(all.map(({ transport, name }) => [transport, name])));
    for (const one of all) {
      const standstill = this.standing.at(one.transport, now);
      standing.set(one.name, standstill);
      const ready = readyOf(standstill, most, this.turn * BUCKETS >= this.buckets.length);
      transports[one.name] = { ...statsOf(one, ids, relays), ...ready };
    }
    const readOnly = all.some((one) => one.readOnly === true);
    return (this.last = { transports, standing, readOnly, relays });
  }

  /** Where a look begins. */
  private after(): (transport: number, bucket: number) => string {
    const known = new Map<number, (bucket: number) => string>();
    return (transport, bucket) => {
      const goneUpTo = known.get(transport) ?? this.settings.goneUpTo(transport);
      known.set(transport, goneUpTo);
      return this.standing.after(transport, bucket, goneUpTo(bucket));
    };
  }
}

function undefinedIfLate(error: unknown): undefined {
  if (!(error instanceof OutboxError) || error.code !== 'TIMEOUT') throw error;
}

/** After one that took too long, of their number. */
const SELDOM = 10;

function readyOf(
  { stands }: Standstill,
  most: number,
  sawAll: boolean,
): Pick<OutboxTransportStats, 'ready' | 'readyIsExact' | 'oldestReadyAge'> {
  const ages = stands.flatMap(({ age }) => age ?? []);
  return {
    ready: stands.reduce((sum, { ready }) => sum + ready, 0),
    readyIsExact: sawAll && stands.every(({ ready }) => ready < most),
    oldestReadyAge: ages.length === 0 ? null : Math.max(...ages),
  };
}
