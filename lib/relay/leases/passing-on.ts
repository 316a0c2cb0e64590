import type { Clock } from '../../time/clock.js';
import { compareSeq } from '../../outbox-message.js';
import type { Instance } from '../../store/lease-store.js';
import type { OutboxTransport } from '../../transports/transport.js';
import { toldOf, withTold } from '../../store/instance-info.js';
import type { Held, LeaseSettings } from './lease-listener.js';

/** What one instance tells the others, of one transport. */
interface Announcement {
  /** What it can handle: `* type`, or `2 type` for one version; `*`: more than fits into a third of the row. */
  readonly can: readonly string[];
  /** Bucket → under which epoch it had it, and what it could not handle there: whoever can may take it. */
  readonly gives: Readonly<Record<string, readonly string[]>>;
}
interface Given {
  readonly epoch: string;
  readonly what: readonly string[];
  readonly until: number;
}
type Others = readonly Pick<Instance, 'transports' | 'info'>[];
type ByBucket<T> = Map<number, T>;

/**
 * Instances that can handle different things (two applications on one set of tables, two versions while one replaces the other)
 * hand buckets to each other, or what only the other can handle would wait for ever: a lease is sticky. Who meets such a message
 * drains the bucket, frees its lease, and says so with its next heartbeat. Whoever can handle it takes the lease, beside its fair
 * share, and keeps it for a while, or until it meets a message that only another one can handle. It is a lease like any other:
 * it is fenced, and one instance at a time has the bucket, which keeps the order of its keys.
 */
export class PassingOn {
  /** Transport → what can be handled here. @internal */
  readonly handles = new Map<number, () => readonly string[]>();
  /** Transport → what is wanted of others there. @internal */
  readonly wanted = new Map<number, ByBucket<Set<string>>>();
  /** Given away, until when it is offered. @internal */
  readonly given = new Map<number, ByBucket<Given>>();
  /** Taken beside the fair share, until when. @internal */
  readonly guests = new Map<number, ByBucket<number>>();
  /** Milliseconds for which a bucket is held before it is passed on: what can be handled there has its time. @internal */
  readonly turn: number;

  constructor(
    readonly clock: Clock,
    readonly settings: Pick<LeaseSettings, 'buckets' | 'every' | 'need'>,
    /** The next look at the leases has something to do. */
    readonly changed: () => void,
  ) {
    this.turn = Math.max(MIN_TURN, settings.every * 2);
  }

  register(transport: number, publishing: Pick<OutboxTransport, 'handles'>): void {
    if (publishing.handles !== undefined) this.handles.set(transport, () => publishing.handles?.() ?? []);
  }

  /** @returns whether somebody has it */
  want(transport: number, bucket: number, what: string, others: Others): boolean {
    const has = others.some(
      ({ transports, info }) => transports.includes(transport) && includes(read(info, transport)?.can, what),
    );
    if (!has) return false;
    const here = of(this.wanted, transport);
    const known = here.get(bucket);
    if (known === undefined) here.set(bucket, new Set([what]));
    else if (known.size < MOST) known.add(what);
    if (known === undefined) this.changed();
    return true;
  }

  /** Milliseconds after which a message that waits for another instance is tried again: within its turn. */
  get retryIn(): number {
    return Math.min(LAST_TRY, this.turn / 2);
  }

  /** @returns buckets that are to be given back now */
  give(transport: number, held: ReadonlyMap<number, Held>): number[] {
    const now = this.clock.monotonic();
    const given: number[] = [];
    for (const [bucket, what] of of(this.wanted, transport)) {
      const lease = held.get(bucket);
      if (lease !== undefined && now - lease.since < this.turn) continue;
      of(this.wanted, transport).delete(bucket);
      if (lease === undefined) continue;
      of(this.given, transport).set(bucket, {
        epoch: lease.epoch,
        what: [...what],
        until: now + this.turn * OFFERED + this.settings.need,
      });
      of(this.guests, transport).delete(bucket);
      given.push(bucket);
    }
    return given;
  }

  /** @returns buckets that others offer, and of which something can be handled here */
  offered(transport: number, held: ReadonlyMap<number, unknown>, others: Others): number[] {
    const can = this.handles.get(transport)?.() ?? [];
    return others.flatMap(({ info }) =>
      Object.entries(read(info, transport)?.gives ?? {}).flatMap(([name, [epoch = '0', ...what]]) => {
        const bucket = Number(name);
        const isOurs = held.has(bucket) || this.isOlder(transport, bucket, epoch);
        return !isOurs && what.some((each) => includes(can, each)) ? [bucket] : [];
      }),
    );
  }

  isOffering(transport: number): boolean {
    return of(this.given, transport).size > 0;
  }

  /** An offer of before we had it, and offered it ourselves. @internal */
  isOlder(transport: number, bucket: number, epoch: string): boolean {
    const given = of(this.given, transport).get(bucket);
    return given !== undefined && compareSeq(epoch, given.epoch) <= 0;
  }

  /** Those of them that were free. */
  took(transport: number, buckets: readonly number[], held: ReadonlyMap<number, unknown>): void {
    for (const bucket of buckets) {
      if (!held.has(bucket)) continue;
      of(this.guests, transport).set(bucket, this.clock.monotonic() + this.turn * VISIT);
      of(this.given, transport).delete(bucket);
    }
  }

  /** Of what is held, what counts for the fair share. */
  withoutGuests<T>(transport: number, held: ReadonlyMap<number, T>): ReadonlyMap<number, T> {
    const guests = of(this.guests, transport);
    const now = this.clock.monotonic();
    for (const [bucket, until] of guests) if (until <= now || !held.has(bucket)) guests.delete(bucket);
    return guests.size === 0 ? held : new Map([...held].filter(([bucket]) => !guests.has(bucket)));
  }

  /** The buckets that may be taken by the fair share: not those that are just offered to others. `undefined`: all. */
  allBut(transport: number): readonly number[] | undefined {
    const given = of(this.given, transport);
    const now = this.clock.monotonic();
    for (const [bucket, { until }] of given) if (until <= now) given.delete(bucket);
    if (given.size === 0) return undefined;
    return Array.from({ length: this.settings.buckets }, (_, bucket) => bucket).filter((bucket) => !given.has(bucket));
  }

  /**
   * What stands in the row of this instance: for people, and behind it for the others. What does not fit there is not offered.
   * @param troubles why it does not publish all that it should: at most a third of what fits
   */
  announced(info: string, troubles: readonly unknown[]): string {
    const some = fitting(troubles);
    for (const most of [this.settings.buckets, FEW, 0]) {
      const text = withTold(info, { ...this.announcements(most), ...(some.length > 0 && { troubles: some }) });
      if (Buffer.byteLength(text) <= MOST_BYTES) return text;
    }
    return info;
  }

  /** @param most buckets of a transport that are offered @internal */
  announcements(most: number): Readonly<Record<number, Announcement>> {
    const all: Record<number, Announcement> = {};
    for (const [transport, handles] of this.handles) {
      const can = handles();
      const fits = Buffer.byteLength(JSON.stringify(can)) <= MOST_BYTES / 3 / this.handles.size;
      const gives: Record<number, readonly string[]> = {};
      for (const [bucket, { epoch, what }] of [...of(this.given, transport)].slice(0, most))
        gives[bucket] = [epoch, ...what];
      all[transport] = { can: fits ? can : ['*'], gives };
    }
    return all;
  }
}

function of<T>(all: Map<number, ByBucket<T>>, transport: number): ByBucket<T> {
  const known = all.get(transport) ?? new Map<number, T>();
  all.set(transport, known);
  return known;
}

/** @param what `2 type` */
function includes(can: readonly string[] | undefined, what: string): boolean {
  if (can === undefined) return false;
  return can.includes(what) || can.includes(`*${what.slice(what.indexOf(' '))}`) || can.includes('*');
}

/** Of an instance of another version, or a row that somebody wrote: nothing, where it is not as ours. */
function read(info: string, transport: number): Announcement | undefined {
  const { can, gives } = Object(toldOf(info)[transport]) as Partial<Announcement>;
  if (!isTexts(can) || typeof gives !== 'object' || !Object.values(Object(gives)).every(isTexts)) return undefined;
  return { can, gives };
}

/** The first of them. */
function fitting(told: readonly unknown[]): readonly unknown[] {
  let left = MOST_BYTES / 3;
  return told.filter((each) => (left -= Buffer.byteLength(JSON.stringify(each)) + 1) >= 0);
}

const isTexts = (value: unknown): value is readonly string[] =>
  Array.isArray(value) && value.every((each) => typeof each === 'string');

/** Milliseconds. */
const MIN_TURN = 1_000;
const LAST_TRY = 1_000;
/** Turns for which a bucket is offered, once what is out of it is through; and for which it is kept by whoever took it. */
const OFFERED = 3;
const VISIT = 5;
/** Types that are wanted in one bucket. */
const MOST = 10;
/** Less than the column of MySQL holds, 65,535 bytes: a heartbeat that fails would cost all leases. */
const MOST_BYTES = 60_000;
const FEW = 8;
