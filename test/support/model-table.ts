import { Claimer } from '../../lib/relay/read/claimer.js';
import { ProbeFloor } from '../../lib/relay/read/probe-floor.js';
import { SnapshotFloor } from '../../lib/relay/read/snapshot-floor.js';
import { compareSeq, type OutboxMessage, type Place } from '../../lib/outbox-message.js';
import type { ReadRange, ReadyStore, Snapshot } from '../../lib/store/ready-store.js';
import { FakeClock } from '../../lib/testing/fake-clock.js';
import { stored } from './lane.js';

interface Transaction {
  id: bigint;
  rows: Place[];
  state: 'open' | 'committed';
  readonly began: number;
  finished: number;
}

/**
 * A ready table as the database keeps it: transactions take their id with their first row, rows their number before the
 * commit, and a snapshot is what PostgreSQL says: `xmax` is one past the highest *finished* id, whatever is open above it.
 * Reads go through a real {@link Claimer}; every read is checked against what was visible when it was made.
 */
export class ModelTable {
  readonly clock = new FakeClock();
  readonly floor: SnapshotFloor | ProbeFloor;
  readonly claimer: Claimer;
  readonly writers = new Map<number, Transaction>();
  readonly transactions: Transaction[] = [];
  readonly handed = new Set<string>();
  readonly unsettled: OutboxMessage[] = [];
  readonly complaints: string[] = [];
  nextId = 100n;
  highestFinished = 99n;
  nextSeq = 1n;
  moment = 0;
  session = 0;
  /** Happens between a fetch and the sweep that follows it, and between that and the read of what it found. */
  between: () => void = () => undefined;
  afterSweep: () => void = () => undefined;
  /** Happens around each look for the beginning of buckets. */
  looking: () => void = () => undefined;
  /** Numbers of a bucket at which one look gets; a wider one is cancelled. */
  reach = Infinity;
  /** A settle that was sent and not answered. */
  writing: { transaction: Transaction; settled: OutboxMessage[]; reads: number } | undefined;
  visibleAtFetch: Place[] = [];

  constructor(readonly kind: 'snapshots' | 'probes') {
    this.floor = kind === 'snapshots' ? new SnapshotFloor() : new ProbeFloor(() => this.clock.monotonic());
    const store = {
      ...(kind === 'probes' ? { bucketsPerRead: 1 } : this.looks()),
      fetch: async ({
        positions,
        perBucket,
        limit,
      }: {
        positions: readonly { bucket: number; after: string }[];
        perBucket: number;
        limit: number;
      }) => {
        this.visibleAtFetch = this.visible();
        const rows = positions.flatMap(({ bucket, after }) =>
          this.visible()
            .filter((row) => row.bucket === bucket && compareSeq(row.seq, after) > 0)
            .slice(0, perBucket),
        );
        const result = {
          messages: rows.slice(0, limit).map(message),
          snapshot: this.snapshot(),
          durable: true,
          session: this.session,
        };
        this.between();
        return result;
      },
      sweep: async (_transport: number, ranges: readonly ReadRange[]) => ({
        places: this.swept(ranges.flatMap((range) => this.visible().filter((row) => inside(row, range)))),
        complete: true,
      }),
      readPlaces: async (_transport: number, places: readonly Place[], visibleIn: Snapshot | undefined) => ({
        messages: this.visible()
          .filter(({ seq }) => places.some((place) => place.seq === seq) && this.sees(visibleIn, seq))
          .map(message),
        snapshot: this.snapshot(),
        durable: true,
        session: this.session,
      }),
      probe: async (_transport: number, ranges: readonly ReadRange[]) => ({
        clean: ranges.map((range) => !this.open().some(({ rows }) => rows.some((row) => inside(row, range)))),
        now: this.clock.wall(),
      }),
    };
    this.claimer = new Claimer(
      store,
      0,
      this.floor,
      this.clock,
      () => (this.writing === undefined ? undefined : this.answer()),
      1e9,
    );
    for (const bucket of [0, 1]) this.claimer.add(bucket);
  }

  /** @internal */ looks(): Required<Pick<ReadyStore, 'edge' | 'lowest'>> {
    return {
      edge: async () => {
        this.looking();
        const source = { server: 'a', table: 't', last: String(this.nextSeq - 1n) };
        const snapshot = this.snapshot() as Snapshot;
        const transaction = this.begin();
        this.finish(transaction);
        this.looking();
        return { source, snapshot, fence: String(transaction.id), session: this.session };
      },
      lowest: async (_transport, ranges) => {
        if (ranges.some(({ after, upTo }) => Number(upTo) - Number(after) > this.reach))
          throw Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });
        const places = ranges.flatMap((range) =>
          this.visible()
            .filter((row) => inside(row, range))
            .slice(0, 1),
        );
        const snapshot = this.snapshot() as Snapshot;
        this.looking();
        return { places, snapshot };
      },
    };
  }

  insert(writer: number, bucket: number): void {
    let transaction = this.writers.get(writer);
    if (transaction === undefined) this.writers.set(writer, (transaction = this.begin()));
    transaction.rows.push({ bucket, seq: String(this.nextSeq++) });
  }

  end(writer: number, how: 'commit' | 'rollback'): void {
    const transaction = this.writers.get(writer);
    if (transaction === undefined) return;
    this.writers.delete(writer);
    if (how === 'rollback') transaction.rows = [];
    this.finish(transaction);
  }

  /** Sends a settle of what was handed out; {@link answer} is its commit and its acknowledgement. */
  settle(): void {
    if (this.writing !== undefined || this.unsettled.length === 0) return;
    this.writing = { transaction: this.begin(), settled: this.unsettled.splice(0), reads: this.claimer.reads };
  }

  async answer(): Promise<void> {
    const { writing } = this;
    if (writing === undefined) return;
    this.writing = undefined;
    const gone = new Set(writing.settled.map(({ seq }) => seq));
    for (const { rows } of this.transactions) rows.splice(0, rows.length, ...rows.filter(({ seq }) => !gone.has(seq)));
    this.finish(writing.transaction);
    this.floor.wrote(String(writing.transaction.id), writing.reads);
    for (const row of writing.settled) this.claimer.settled(row);
  }

  /** What was read and is not settled is given up. */
  rewind(): void {
    for (const { seq } of this.unsettled) this.handed.delete(seq);
    this.claimer.rewind(this.unsettled.splice(0));
  }

  /** The lease was lost, and leased again: what was read is the new owner's, who is we. */
  regain(bucket: number): void {
    const lost = this.unsettled.filter((message) => message.bucket === bucket);
    this.unsettled.splice(0, Infinity, ...this.unsettled.filter((message) => message.bucket !== bucket));
    for (const row of lost) {
      this.handed.delete(row.seq);
      this.claimer.known.delete(row);
    }
    this.claimer.forget(bucket);
    this.claimer.add(bucket);
  }

  async read(limit: number): Promise<number> {
    const messages = this.claimer.stillOurs((await this.claimer.read(limit)).messages);
    for (const { bucket, seq } of messages) {
      if (this.handed.has(seq)) this.complaints.push(`${seq} came twice`);
      this.handed.add(seq);
      const earlier = this.visibleAtFetch.find(
        (row) => row.bucket === bucket && compareSeq(row.seq, seq) < 0 && !this.handed.has(row.seq),
      );
      if (earlier !== undefined) this.complaints.push(`${seq} before ${earlier.seq}, which was visible`);
      const own = this.transactionOf(seq);
      const before = this.transactions
        .filter((each) => own !== undefined && (each === own || each.finished < own.began))
        .flatMap(({ rows }) => rows)
        .find((row) => row.bucket === bucket && compareSeq(row.seq, seq) < 0 && !this.handed.has(row.seq));
      if (before !== undefined) this.complaints.push(`${seq} before ${before.seq}, which precedes it`);
    }
    this.unsettled.push(...messages);
    this.checkFloor();
    return messages.length;
  }

  /** No row that can still appear, and none that was not read, is at or below the floor. */
  checkFloor(): void {
    for (const row of [
      ...this.open().flatMap(({ rows }) => rows),
      ...this.visible().filter(({ seq }) => !this.handed.has(seq)),
    ]) {
      const floor = this.floor.floorOf(row.bucket);
      if (compareSeq(floor, row.seq) >= 0) this.complaints.push(`floor ${floor} is not below ${row.seq}`);
    }
  }

  /** @internal */ swept(places: Place[]): Place[] {
    this.afterSweep();
    return places;
  }
  visible(): Place[] {
    const rows = this.transactions.filter(({ state }) => state === 'committed').flatMap((each) => each.rows);
    return rows.sort((a, b) => a.bucket - b.bucket || compareSeq(a.seq, b.seq));
  }

  /** @internal */ transactionOf(seq: string): Transaction | undefined {
    return this.transactions.find(({ rows }) => rows.some((row) => row.seq === seq));
  }
  /** @internal */ open(): Transaction[] {
    return this.transactions.filter(({ state }) => state === 'open');
  }
  /** @internal */ begin(): Transaction {
    const transaction: Transaction = {
      id: this.nextId++,
      rows: [],
      state: 'open',
      began: (this.moment += 1),
      finished: Infinity,
    };
    this.transactions.push(transaction);
    return transaction;
  }
  /** @internal */ finish(transaction: Transaction): void {
    transaction.state = 'committed';
    transaction.finished = this.moment += 1;
    if (transaction.id > this.highestFinished) this.highestFinished = transaction.id;
  }
  /** @internal */ sees(snapshot: Snapshot | undefined, seq: string): boolean {
    const id = this.transactionOf(seq)?.id;
    if (snapshot === undefined || id === undefined) return true;
    return id < BigInt(snapshot.xmax) && !snapshot.open.includes(String(id));
  }
  snapshot(): Snapshot | undefined {
    if (this.kind === 'probes') return undefined;
    const xmax = this.highestFinished + 1n;
    const open = this.open()
      .map(({ id }) => id)
      .filter((id) => id < xmax);
    return { xmin: String(open[0] ?? xmax), xmax: String(xmax), open: open.map(String) };
  }
}

function inside({ bucket, seq }: Place, range: ReadRange): boolean {
  return bucket === range.bucket && compareSeq(seq, range.after) > 0 && compareSeq(seq, range.upTo) <= 0;
}

/** The same at each read. */
const message = (place: Place): OutboxMessage => stored({ ...place, id: `message ${place.seq}` });
