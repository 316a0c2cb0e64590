import type { Clock } from '../../time/clock.js';
import { compareSeq, lowerSeq, type OutboxMessage, type Place } from '../../outbox-message.js';
import type { FetchResult, ReadPosition, ReadyStore, Snapshot } from '../../store/ready-store.js';
import type { AboveLast } from './above-last.js';
import { Approach } from './approach.js';
import { approachOn, goOnApproaching, type AnyApproach } from './approaching.js';
import { fetchHeads, passWalked, rowsPerBucket } from './fetching.js';
import type { LowWaterMark } from './low-water-mark.js';
import { KnownRows } from './known-rows.js';
import { LateRows } from './late-rows.js';
import { lookAbove } from './look-above.js';
import { NumberWatch } from './number-watch.js';
import type { ReadResult } from './read-result.js';
import type { Walks } from './walks.js';

type Reads = 'fetch' | 'sweep' | 'readPlaces' | 'probe' | 'lowest' | 'edge' | 'bucketsPerRead' | 'numberSource';
const NOTHING: ReadResult = { messages: [], durable: true, more: false };
/**
 * Reads what the leased buckets of one transport hold. Keeps, in memory only, how far each bucket was read (head), until
 * where nothing can appear any more (low-water mark), and which rows must not come out of a read again because they are being
 * published or their settle is on its way. Reads never overlap.
 */
export class Reader {
  readonly heads = new Map<number, string>();
  reading = false;
  /** Reads that went out; a write that is sent later than a read is newer than all that it saw. */
  reads = 0;
  /** Buckets that were given up since the last read began: what it returns of them is void, also when they were leased again. */
  readonly forgotten = new Set<number>();
  /** Found by a sweep beyond what may be read at once: a large transaction that committed late. */
  backlog: Place[] = [];
  /** What the fetch saw that the backlog was found for. */
  private backlogSeen: Snapshot | undefined;
  session: number | undefined;
  /** Reads that had gone out when its connection was another one. */
  private readsBeforeSession = -1;
  restarts = 0;
  rotation = 0;
  /** Buckets whose last read came back full: more of them is waiting. */
  readonly full = new Set<number>();
  /** Reads while some are full; one in {@link WIDE_EVERY} looks at all buckets. */
  turn = 0;
  readonly lateRows: LateRows;
  readonly numbers: NumberWatch;
  /** Of its buckets nothing is read yet; `undefined` where they are fetched from 0. */
  readonly approach: AnyApproach | undefined;
  readonly walks: Walks | undefined;
  readonly above: AboveLast | undefined;
  /** How often positions turned out to be wrong, so that everything was read again. */
  readAgain = 0;
  /** Hears of what went out of order, or may have. Set by the relay. */
  told: (warning: string) => void = () => undefined;

  constructor(
    readonly store: Pick<ReadyStore, Reads>,
    readonly transport: number,
    readonly lowWaterMark: LowWaterMark,
    readonly clock: Clock,
    ownWrites: () => Promise<unknown> | undefined,
    fullScanEvery?: number,
    readonly known = new KnownRows(),
  ) {
    this.lateRows = new LateRows(store, transport, lowWaterMark, clock, ownWrites, fullScanEvery);
    this.numbers = new NumberWatch(store, clock);
    this.approach = approachOn(store, transport, lowWaterMark, clock);
    const { walks, above } = this.approach instanceof Approach ? this.approach : NO_APPROACH;
    this.walks = walks;
    this.above = above;
  }

  add(bucket: number): void {
    this.readFrom(bucket, '0');
    this.lowWaterMark.add(bucket);
  }

  /** How many it reads; `undefined` while some cannot be read yet. */ get buckets(): number | undefined {
    return this.approach?.isOn === true || this.isBehind ? undefined : this.heads.size;
  }

  /** Of some buckets nothing goes out yet. */
  private get isBehind(): boolean {
    return this.lateRows.walked !== undefined && this.lateRows.walked.held.size > 0;
  }

  private readFrom(bucket: number, seq: string): void {
    const { approach, heads } = this;
    if (approach !== undefined && seq === '0') {
      heads.delete(bucket);
      return approach.add(bucket);
    }
    this.goBack(bucket, seq);
  }

  private goBack(bucket: number, seq: string): void {
    this.walks?.wentBack(bucket, seq, this.heads.get(bucket));
    this.heads.set(bucket, seq);
  }

  forget(bucket: number): void {
    this.heads.delete(bucket);
    this.approach?.forget(bucket);
    this.lateRows.walked?.forget(bucket);
    this.lowWaterMark.forget(bucket);
    this.forgotten.add(bucket);
    this.full.delete(bucket);
    this.backlog = this.backlog.filter((place) => place.bucket !== bucket);
  }

  /** Of the messages of the last read those whose bucket was not given up since; the others are not ours to publish. */
  stillOurs(messages: readonly OutboxMessage[]): readonly OutboxMessage[] {
    if (this.forgotten.size === 0) return messages;
    return messages.filter((message) => !this.forgotten.has(message.bucket) || !this.known.delete(message));
  }

  /** @param only read just this bucket */
  async read(limit: number, only?: number): Promise<ReadResult> {
    if (limit < 1) return NOTHING;
    this.reading = true;
    this.forgotten.clear();
    try {
      const ended = await goOnApproaching(this);
      if (ended !== undefined) return ended;
      if (this.backlog.length === 0) await this.goOnWalking(only);
      const above = await lookAbove(this, limit, only);
      if (above !== undefined) return above;
      const positions = this.positions(only);
      if (positions.length === 0 && this.buckets !== undefined) return NOTHING;
      return await (this.backlog.length > 0
        ? this.readBacklog(limit, this.restarts)
        : this.readHeads(limit, positions, this.restarts));
    } catch (error) {
      this.void(); // what a sweep had found may be lost with the answer: it is looked for again
      throw error;
    } finally {
      this.reading = false;
      this.known.forgetLingering();
    }
  }

  private async goOnWalking(only: number | undefined): Promise<void> {
    const found = await this.lateRows.goOn(this.heads, this.known, this.numbers.source?.last, only);
    if (found === undefined) return;
    this.backlog = found.places.filter(({ bucket }) => this.isOurs(bucket));
    this.backlogSeen = found.seen;
  }

  /** What is new beyond the heads, and before it what became visible behind them. */
  private async readHeads(limit: number, positions: readonly ReadPosition[], restarts: number): Promise<ReadResult> {
    const perBucket = rowsPerBucket(this.full.size, limit, positions.length);
    const { lateRows, known } = this;
    const fetched = await fetchHeads(this, positions, { perBucket, limit });
    if (fetched === undefined) return { ...NOTHING, more: true }; // nothing was swept yet
    this.session ??= fetched.session;
    if (this.session !== fetched.session) return this.newSession(fetched.session);
    const wrong = await this.numbers.look(fetched, this.heads);
    if (wrong !== undefined) return this.startOver(wrong);
    const { places, complete, raise, overtaken } = await lateRows.find(fetched.snapshot, this.heads, positions, known);
    if (this.restarts !== restarts) return this.void(); // what was found is of a range that has moved
    const swept = places.filter(({ bucket, seq }) => !this.known.has(seq) && this.isOurs(bucket));
    const below = swept.find(({ bucket, seq }) => compareSeq(seq, this.lowWaterMark.of(bucket)) <= 0);
    if (below !== undefined) return this.startOver(`a message stood at number ${below.seq}, ${BELOW}`);
    if (overtaken !== undefined) this.told(overtaken);
    this.backlog = swept.filter(({ bucket }) => !lateRows.holds(bucket));
    this.backlogSeen = fetched.snapshot;
    // The head fetch is made again when all that became visible behind it is read.
    if (this.backlog.length > limit || !complete) return await this.readBacklog(limit, restarts);
    const late = this.backlog.splice(0);
    const found = late.length === 0 ? NOTHING : await this.store.readPlaces(this.transport, late, fetched.snapshot);
    const ended = 'session' in found ? await this.contradicted(found, restarts) : undefined;
    if (ended !== undefined) return ended;
    raise?.(); // not before what the sweep found is in hand: a restart would skip it
    const messages = this.fresh(found.messages);
    const reached = this.advance(fetched, positions, perBucket);
    const isPassed = passWalked(this, fetched, positions, limit);
    for (const message of this.fresh(fetched.messages)) messages.push(message);
    this.lowWaterMark.passed(fetched.snapshot, this.heads, reached, lateRows.walked?.held);
    lateRows.walked?.passed();
    this.reads += 1;
    for (const message of messages) this.known.add(message);
    const more = fetched.messages.length >= limit || this.full.size > 0 || isPassed || this.isBehind;
    return { messages, durable: fetched.durable && found.durable, more };
  }

  /**
   * Looked at between the read and the publish: the process may have stood still since the look before, and numbers have gone back.
   * @returns what a read ends with of which nothing holds
   */
  async contradicted(found: FetchResult, restarts: number): Promise<ReadResult | undefined> {
    if (this.restarts !== restarts) return this.void();
    if (this.session !== found.session) return this.newSession(found.session);
    const wrong = await this.numbers.look(found, this.heads);
    if (wrong !== undefined) return this.startOver(wrong);
    return this.restarts === restarts ? undefined : this.void();
  }

  /** The row left the ready table, and the database said so. */
  settled(row: Pick<OutboxMessage, 'seq' | 'id'>): void {
    if (this.reading) this.known.lingering.push(row);
    else this.known.delete(row);
  }

  /**
   * Whether a write, before which so many reads had gone out, was sent before the connection was another one. After a failover its
   * answer may be that of a server that is gone, and what it wrote be lost.
   */
  isOfOtherServer(readsBefore: number): boolean {
    return readsBefore <= this.readsBeforeSession;
  }

  /** These rows were read and are given up without a word: they are read again. */
  rewind(messages: Iterable<OutboxMessage>): void {
    const points = new Map<number, string>();
    // A bucket that is read from its start again may still be below a low-water mark that holds all the same.
    for (const [bucket, head] of this.heads) points.set(bucket, lowerSeq(head, this.lowWaterMark.rewindTo(bucket)));
    for (const message of messages) {
      const { bucket, seq } = message;
      this.known.delete(message);
      const point = points.get(bucket);
      if (point === undefined) continue;
      if (compareSeq(seq, point) <= 0) points.set(bucket, (BigInt(seq) - 1n).toString());
      else this.above?.lookAgain(bucket);
    }
    this.restart(points, 'rewind');
  }

  private restart(points: ReadonlyMap<number, string>, how: 'restart' | 'rewind' = 'restart'): void {
    this.restarts += 1;
    this.lateRows.walked?.clear();
    // Where reads prove nothing, a bucket joins after 2 s. What is known of one that is rewound still holds: it need not join anew.
    const isKnown = how === 'rewind' && !this.lowWaterMark.readsProve;
    for (const [bucket, seq] of points) {
      if (isKnown) this.goBack(bucket, seq);
      else this.readFrom(bucket, seq);
    }
    this.lowWaterMark[how](points);
    this.full.clear();
    this.backlog = [];
  }

  /** Read before a restart: to be read again, also what only a full scan finds. */
  private void(): ReadResult {
    this.lateRows.lost();
    this.backlog = [];
    return { ...NOTHING, more: true };
  }

  /** The next part of what a sweep found, per bucket from the lowest. */
  private async readBacklog(limit: number, restarts: number): Promise<ReadResult> {
    if (this.backlog.length === 0) return NOTHING; // all that one sweep returns is on its way out already
    const perBucket = Math.max(1, Math.floor(limit / new Set(this.backlog.map(({ bucket }) => bucket)).size));
    const taken = new Map<number, number>();
    const now: Place[] = [];
    const later: Place[] = [];
    for (const place of this.backlog) {
      const count = taken.get(place.bucket) ?? 0;
      const fits = count < perBucket && now.length < limit;
      (fits ? now : later).push(place);
      taken.set(place.bucket, fits ? count + 1 : perBucket);
    }
    const found = await this.store.readPlaces(this.transport, now, this.backlogSeen);
    const ended = await this.contradicted(found, restarts);
    if (ended !== undefined) return ended;
    this.backlog = later.filter(({ bucket }) => !this.forgotten.has(bucket));
    const messages = this.fresh(found.messages);
    for (const message of messages) this.known.add(message);
    return { messages, durable: found.durable, more: true };
  }

  /** A new connection may lead to another server: nothing that was concluded from the old one holds. */
  newSession(session: number): ReadResult {
    this.session = session;
    this.readsBeforeSession = this.reads;
    this.numbers.newSession();
    return { ...this.fromStart(), otherServer: true };
  }

  /** What was read proves positions wrong: nothing that was concluded from them holds. */
  startOver(why: string): ReadResult {
    this.readAgain += 1;
    this.told(`${why}: everything is read again, in order`);
    return { ...this.fromStart(), otherServer: this.numbers.isOfOther };
  }

  /** All is read again, in order, and numbers alone tell nothing of who has them. */
  private fromStart(): ReadResult {
    this.known.doubt();
    this.approach?.restart();
    this.restart(new Map([...this.heads.keys()].map((bucket) => [bucket, '0'])));
    return { ...NOTHING, more: true, startedOver: true };
  }

  fresh(messages: readonly OutboxMessage[]): OutboxMessage[] {
    return messages.filter((message) => this.known.isNew(message) && this.isRead(message.bucket));
  }

  /** Leased since before the read began. */
  private isOurs(bucket: number): boolean {
    return this.heads.has(bucket) && !this.forgotten.has(bucket);
  }

  /** What the read found of it goes out. */ isRead(bucket: number): boolean {
    return this.isOurs(bucket) && !this.lateRows.holds(bucket);
  }

  /** Not past the last number that was given out: where a sequence was set back below rows, new ones come before these. */
  private advance(
    { messages, source }: Pick<FetchResult, 'messages' | 'source'>,
    positions: readonly ReadPosition[],
    perBucket: number,
  ): Map<number, OutboxMessage> {
    const last = source?.last;
    const reached = new Map<number, OutboxMessage>();
    for (const { bucket } of positions) this.full.delete(bucket);
    let bucket = -1;
    let count = 0;
    for (let i = 0; i < messages.length; i += 1) {
      const message = messages[i] as OutboxMessage;
      if (message.bucket !== bucket) {
        bucket = message.bucket;
        count = 0;
      }
      count += 1;
      if (messages[i + 1]?.bucket === bucket || !this.isRead(bucket)) continue;
      if (count >= perBucket) this.full.add(bucket);
      const isGivenOut = last === undefined || compareSeq(message.seq, last) <= 0;
      this.heads.set(bucket, isGivenOut ? message.seq : last);
      if (isGivenOut) reached.set(bucket, message);
    }
    return reached;
  }

  /** Rotated, so that a limit does not always favour the same buckets. */
  positions(only: number | undefined): ReadPosition[] {
    const isDue = (bucket: number): boolean => !this.lateRows.holds(bucket);
    if (only !== undefined) return this.heads.has(only) && isDue(only) ? [this.position(only)] : [];
    const { bucketsPerRead } = this.store;
    const few = bucketsPerRead !== undefined && this.full.size > 0 && (this.turn = (this.turn + 1) % WIDE_EVERY) !== 0;
    // Who was read goes to the end of `full`.
    if (few) return [...this.full].slice(0, bucketsPerRead).map((bucket) => this.position(bucket));
    const all = [...this.heads.keys()].filter(isDue);
    this.rotation = all.length === 0 ? 0 : (this.rotation + 1) % all.length;
    return [...all.slice(this.rotation), ...all.slice(0, this.rotation)].map((bucket) => this.position(bucket));
  }

  private position(bucket: number): ReadPosition {
    const after = this.heads.get(bucket) ?? '0';
    if (this.walks?.ends.has(bucket) === true) return this.walks.bounded(bucket, after);
    return this.above?.bounded(bucket, after, this.numbers.source?.last) ?? { bucket, after };
  }
}

const NO_APPROACH = { walks: undefined, above: undefined };
/** Of a row that a scan found at or below the low-water mark. */
const BELOW = 'where none could appear any more (numbers that went back, or a writer that sets them by hand)';
/** Of the reads under a backlog one in so many looks at all buckets, where the others look at a few. */
const WIDE_EVERY = 12;
