import type { FakeClock } from 'nestjs-outbox/testing';
import type { OutboxMessage } from '../../lib/index.js';
import { compareSeq, type Place } from '../../lib/outbox-message.js';
import type { FetchResult, ReadPosition, ReadRange, ReadyStore, Snapshot } from '../../lib/store/ready-store.js';
import { stored } from './transport-relay.js';

export const BUCKETS = [0, 1];
/** Numbers of rows that are gone; each takes a microsecond to walk over, in each of two buckets. */
export const GONE = 3_000_000;
export const source = (last: string | undefined) => ({ server: 'a', table: 't', last });

type Reads = Pick<ReadyStore, 'fetch' | 'sweep' | 'readPlaces'>;
interface Asked {
  readonly positions: readonly ReadPosition[];
  readonly ms: number;
  readonly cancelled: boolean;
  readonly most: number; // milliseconds after which the server is to give it up
}

/** What somebody's snapshot keeps, on a server that gives up what takes too long. */
export class HeldTable implements Reads {
  live: Place[] = [];
  readonly asked: Asked[] = [];
  snapshot: Snapshot = { xmin: '101', xmax: '101', open: [] };
  /** Milliseconds that any statement takes. */
  slow = 0;
  /** Milliseconds after which a sweep is cancelled; `undefined`: it takes no time. */
  sweepLimit: number | undefined;
  /** The last number that was given out. */
  last: string;

  constructor(
    readonly clock: FakeClock,
    /** What is gone stands between these numbers. */
    public from = 0,
    public to = GONE,
  ) {
    this.last = String(to);
  }

  async fetch(request: Parameters<ReadyStore['fetch']>[0]): Promise<FetchResult> {
    const { positions, perBucket, limit, within = STATEMENT_TIMEOUT, asksFence } = request;
    const found = new Map(positions.map((position) => [position, this.in(position).slice(0, perBucket)]));
    const end = (position: ReadPosition): number =>
      Number(found.get(position)?.[perBucket - 1]?.seq ?? position.upTo ?? Infinity);
    await this.walk(positions, end, within);
    const rows = [...found.values()].flat().slice(0, limit);
    const { last, snapshot } = this;
    const fence = asksFence === true ? '100' : undefined;
    return { messages: rows.map(message), durable: true, snapshot, source: source(last), fence, session: 1 };
  }

  async sweep(_: number, ranges: readonly ReadRange[]) {
    if (this.sweepLimit !== undefined) await this.walk(ranges, ({ upTo }) => Number(upTo), this.sweepLimit);
    return { places: ranges.flatMap((range) => this.in(range)), complete: true };
  }

  async readPlaces(_: number, places: readonly Place[]): Promise<FetchResult> {
    const rows = this.live.filter(({ seq }) => places.some((place) => place.seq === seq));
    return { messages: rows.map(message), durable: true, snapshot: this.snapshot, session: 1 };
  }

  /** @internal */ async walk(
    positions: readonly ReadPosition[],
    end: (position: ReadPosition) => number,
    most: number,
  ): Promise<void> {
    const walked = positions.map((position) =>
      Math.max(0, Math.min(this.to, end(position)) - Math.max(this.from, Number(position.after))),
    );
    const ms = walked.reduce((a, b) => a + b, 0) / 1_000 / BUCKETS.length + this.slow;
    const cancelled = ms > most;
    this.asked.push({ positions, ms, cancelled, most });
    await this.clock.advance(Math.min(ms, most));
    if (cancelled) throw Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });
  }

  /** @internal */ in({ bucket, after, upTo }: ReadPosition): Place[] {
    return this.live.filter(
      (row) =>
        row.bucket === bucket &&
        compareSeq(row.seq, after) > 0 &&
        (upTo === undefined || compareSeq(row.seq, upTo) <= 0),
    );
  }
}

/** The same at each read. */
const message = (place: Place): OutboxMessage => stored({ ...place, id: `message ${place.bucket} ${place.seq}` });
/** Milliseconds. */
const STATEMENT_TIMEOUT = 10_000;
