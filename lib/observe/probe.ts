import { GLANCE_TIMEOUT, perBucket, type AdminStore } from '../store/admin-store.js';
import type { Counts } from './health.js';
import { liveOf, seeRelays } from './seen-relays.js';
import { Standing, type Standstill } from './standing.js';
import { readStats, type OutboxTransportStats } from './stats.js';

/** Beyond that a count says that there are more. */
const LIMIT = 1_000;
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
  /** @internal */ readonly standing = new Standing();
  /** @internal */ readonly buckets: readonly number[];
  /** @internal */ turn = 0;
  /** When a look begins at the beginning again, and finds what stands below everything that is known. @internal */
  wholeAt: number;
  /** @internal */ last: Counts | undefined;

  constructor(
    readonly store: AdminStore,
    readonly settings: ProbeSettings,
  ) {
    this.buckets = Array.from({ length: settings.buckets }, (_, bucket) => bucket);
    this.wholeAt = settings.now() + 2 * settings.lease;
  }

  async ask(): Promise<Counts> {
    const { store, settings } = this;
    const { ids } = settings;
    if (store.glance === undefined) return readStats(store, ids);
    const from = (this.turn++ % Math.ceil(this.buckets.length / BUCKETS)) * BUCKETS;
    const buckets = this.buckets.length <= BUCKETS ? this.buckets : this.buckets.slice(from, from + BUCKETS);
    const isWhole = settings.now() >= this.wholeAt;
    const after = isWhole ? () => '0' : this.after();
    const [glances, beat] = await Promise.all([store.glance({ limit: LIMIT, buckets, after }), store.relays()]);
    const now = settings.now();
    if (isWhole) this.wholeAt = now + 2 * settings.lease * (glances === undefined ? SELDOM : 1);
    // Only the look from the beginning may have come past too much: the next one does not.
    if (glances === undefined) return (isWhole ? this.last : undefined) ?? { late: GLANCE_TIMEOUT };
    this.standing.looked(glances, buckets, now);
    const transports: Record<string, OutboxTransportStats> = Object.create(null) as typeof transports;
    const standing = new Map<string, Standstill>();
    const most = perBucket({ limit: LIMIT, buckets });
    const relays = seeRelays(beat, new Map(glances.map(({ transport, name }) => [transport, name])));
    for (const { transport, name, heads: _, readOnly: __, ...counts } of glances) {
      const standstill = this.standing.at(transport, now);
      standing.set(name, standstill);
      const ready = readyOf(standstill, most, this.turn * BUCKETS >= this.buckets.length);
      const about = { configured: ids.get(name) === transport, instances: liveOf(name, relays) };
      transports[name] = { ...counts, ...ready, ...about };
    }
    const readOnly = glances.some((glance) => glance.readOnly === true);
    return (this.last = { transports, standing, readOnly, relays });
  }

  /** Where a look begins. @internal */
  after(): (transport: number, bucket: number) => string {
    const known = new Map<number, (bucket: number) => string>();
    return (transport, bucket) => {
      const goneUpTo = known.get(transport) ?? this.settings.goneUpTo(transport);
      known.set(transport, goneUpTo);
      return this.standing.after(transport, bucket, goneUpTo(bucket));
    };
  }
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
