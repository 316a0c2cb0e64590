import type { OutboxMessage } from '../../lib/index.js';
import { Reader, type ReadResult } from '../../lib/relay/read/reader.js';
import { ProbedLowWaterMark } from '../../lib/relay/read/probed-low-water-mark.js';
import { SnapshotLowWaterMark } from '../../lib/relay/read/snapshot-low-water-mark.js';
import { compareSeq, type Place } from '../../lib/outbox-message.js';
import { waitedTooLong } from '../../lib/store/database-errors.js';
import type { NumberSource, ReadRange, ReadyStore, Snapshot } from '../../lib/store/ready-store.js';
import { stored } from './transport-relay.js';
import { ModelTransactions, type Transaction } from './model-transactions.js';

/**
 * A ready table as the database keeps it: transactions take their id with their first row, rows their number before the
 * commit, and a snapshot is what PostgreSQL says: `xmax` is one past the highest *finished* id, whatever is open above it.
 * Reads go through a real {@link Reader}; every read is checked against what was visible when it was made.
 */
export class ModelTable extends ModelTransactions {
  readonly floor: SnapshotLowWaterMark | ProbedLowWaterMark;
  readonly reader: Reader;
  readonly handed = new Set<string>();
  readonly unsettled: OutboxMessage[] = [];
  readonly complaints: string[] = [];
  session = 0;
  /** Happens between a fetch and the sweep that follows it, and between that and the read of what it found. */
  between: () => void = () => undefined;
  afterSweep: () => void = () => undefined;
  /** Happens around the number that a fetch tells, and the id that it is asked for. */
  looking: () => void = () => undefined;
  /** Numbers of a bucket at which a read with a limit gets; a wider one is cancelled. */
  reach = Infinity;
  /** The next fetch takes too long. */
  cancels = false;
  /** A settle that was sent and not answered. */
  writing: { transaction: Transaction; settled: OutboxMessage[]; reads: number } | undefined;
  visibleAtFetch: Place[] = [];

  constructor(kind: 'snapshots' | 'probes') {
    super(kind);
    this.floor =
      kind === 'snapshots' ? new SnapshotLowWaterMark() : new ProbedLowWaterMark(() => this.clock.monotonic());
    const store = {
      ...(kind === 'probes' && { bucketsPerRead: 1, probe: this.probe }),
      fetch: async ({ positions, perBucket, limit, within, asksFence }: Parameters<ReadyStore['fetch']>[0]) => {
        const end = (upTo: string | undefined): number => Math.min(Number(upTo ?? Infinity), Number(this.nextSeq));
        const isWide = positions.some(({ after, upTo }) => end(upTo) - Number(after) > this.reach);
        if (this.cancels || (within !== undefined && isWide)) {
          this.cancels = false;
          this.between();
          throw cancelled();
        }
        // Of a bucket that it does not read, it says nothing: what a sweep found there still goes out.
        const isRead = ({ bucket }: Place): boolean => positions.some((position) => position.bucket === bucket);
        this.visibleAtFetch = [
          ...this.visibleAtFetch.filter((row) => !isRead(row)),
          ...this.visible().filter((row) => isRead(row)),
        ];
        const rows = positions.flatMap(({ bucket, after, upTo }) =>
          this.visible()
            .filter((row) => row.bucket === bucket && compareSeq(row.seq, after) > 0)
            .filter((row) => upTo === undefined || compareSeq(row.seq, upTo) <= 0)
            .slice(0, perBucket),
        );
        const result = {
          messages: rows.slice(0, limit).map((row) => this.message(row)),
          snapshot: this.snapshot(),
          durable: true,
          session: this.session,
        };
        this.looking();
        // Where no snapshot comes with it, that is a statement of its own.
        if (this.kind === 'probes') await Promise.resolve();
        const source = this.lastNumber();
        this.looking();
        const fence = asksFence === true ? this.ownId() : undefined;
        this.between();
        return { ...result, source, fence };
      },
      sweep: async (_transport: number, ranges: readonly ReadRange[]) => {
        const places = this.swept(ranges.flatMap((range) => this.visible().filter((row) => inside(row, range))));
        return { places, complete: true };
      },
      readPlaces: async (_transport: number, places: readonly Place[], visibleIn: Snapshot | undefined) => {
        const messages = this.visible()
          .filter(({ seq }) => places.some((place) => place.seq === seq) && this.sees(visibleIn, seq))
          .map((row) => this.message(row));
        return { messages, snapshot: this.snapshot(), durable: true, session: this.session };
      },
    };
    this.reader = new Reader(store, 0, this.floor, this.clock, {
      ownWrites: () => (this.writing === undefined ? undefined : this.answer()),
      fullScanEvery: 1e9,
    });
    // Few numbers: none would be far from another.
    Object.assign(this.reader.catchUp, { near: 2n });
    for (const bucket of [0, 1]) this.reader.add(bucket);
  }

  /** @internal */ readonly probe = async (_transport: number, ranges: readonly ReadRange[]) => {
    const clean = ranges.map((range) => !this.open().some(({ rows }) => rows.some((row) => inside(row, range))));
    return { clean, now: this.clock.wall() };
  };

  /** @internal */ lastNumber(): NumberSource {
    return { server: 'a', table: 't', last: String(this.nextSeq - 1n) };
  }

  /** Of a transaction that wrote nothing. @internal */ ownId(): string {
    const transaction = this.begin();
    this.finish(transaction);
    return String(transaction.id);
  }

  /** Sends a settle of what was handed out; {@link answer} is its commit and its acknowledgement. */
  settle(): void {
    if (this.writing !== undefined || this.unsettled.length === 0) return;
    this.writing = { transaction: this.begin(), settled: this.unsettled.splice(0), reads: this.reader.reads };
  }

  async answer(): Promise<void> {
    const { writing } = this;
    if (writing === undefined) return;
    this.writing = undefined;
    const gone = new Set(writing.settled.map(({ seq }) => seq));
    for (const { rows } of this.transactions) rows.splice(0, rows.length, ...rows.filter(({ seq }) => !gone.has(seq)));
    this.finish(writing.transaction);
    this.floor.wrote(String(writing.transaction.id), writing.reads);
    for (const row of writing.settled) this.reader.settled(row);
  }

  /** What was read and is not settled is given up. */
  rewind(): void {
    for (const { seq } of this.unsettled) this.handed.delete(seq);
    this.reader.rewind(this.unsettled.splice(0));
  }

  /** The lease was lost, and leased again: what was read is the new owner's, who is we. */
  regain(bucket: number): void {
    const lost = this.unsettled.filter((message) => message.bucket === bucket);
    this.unsettled.splice(0, Infinity, ...this.unsettled.filter((message) => message.bucket !== bucket));
    for (const row of lost) {
      this.handed.delete(row.seq);
      this.reader.known.delete(row);
    }
    this.reader.forget(bucket);
    this.reader.add(bucket);
  }

  async read(limit: number): Promise<number> {
    const read = await this.readOnce(limit).catch((error: unknown) => {
      if (!waitedTooLong(error)) throw error;
      return { messages: [] };
    });
    const messages = this.reader.stillOurs(read.messages);
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

  /** It may rest while it reads. @internal */ async readOnce(limit: number): Promise<ReadResult> {
    let isOver = false;
    const reading = this.reader.read(limit).finally(() => (isOver = true));
    for (let i = 0; !isOver; i += 1) await (i < STEPS ? Promise.resolve() : this.pass(10));
    return reading;
  }

  /** No row that can still appear is at or below the floor; none that was not read is, unless the head is below it, too. */
  checkFloor(): void {
    for (const row of [...this.open().flatMap(({ rows }) => rows), ...this.held.values()]) this.checkBelow(row);
    for (const row of this.visible().filter(({ seq }) => !this.handed.has(seq))) {
      const isAhead = compareSeq(this.reader.heads.get(row.bucket) ?? '0', row.seq) < 0;
      if (!isAhead) this.checkBelow(row);
    }
  }

  /** @internal */ checkBelow({ bucket, seq }: Place): void {
    const floor = this.mark(bucket);
    if (compareSeq(floor, seq) >= 0) this.complaints.push(`floor ${floor} is not below ${seq}`);
  }

  /** As no statement takes 2 s, nothing appears below the upper one either. @internal */ mark(bucket: number): string {
    const { floor } = this;
    return floor instanceof ProbedLowWaterMark ? floor.upper.of(bucket) : floor.of(bucket);
  }

  /** The same at each read. @internal */ message(place: Place): OutboxMessage {
    const createdText = (this.created.get(place.seq) as Date).toISOString();
    return stored({ ...place, id: `message ${place.seq}`, createdText });
  }

  /** @internal */ swept(places: Place[]): Place[] {
    this.afterSweep();
    return places;
  }
}

function inside({ bucket, seq }: Place, range: ReadRange): boolean {
  return bucket === range.bucket && compareSeq(seq, range.after) > 0 && compareSeq(seq, range.upTo) <= 0;
}

/** Turns of what waits in which a read is over that does not rest. */
const STEPS = 1_000;
const cancelled = (): Error =>
  Object.assign(new Error('canceling statement due to statement timeout'), { code: '57014' });
