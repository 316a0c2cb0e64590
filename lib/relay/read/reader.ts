import type { Clock } from '../../time/clock.js';
import { compareSeq, lowerSeq, type OutboxMessage, type Place } from '../../outbox-message.js';
import { waitedTooLong } from '../../store/database-errors.js';
import type { FetchResult, ReadPosition, ReadyStore, Snapshot } from '../../store/ready-store.js';
import { CatchUp } from './catch-up.js';
import { KnownRows } from './known-rows.js';
import { LateRows } from './late-rows.js';
import type { LowWaterMark } from './low-water-mark.js';
import { NumberWatch } from './number-watch.js';
import type { ReadCost } from './snapshot-watch.js';

type Reads = 'fetch' | 'sweep' | 'readPlaces' | 'probe' | 'bucketsPerRead';

/** What one read of the ready table brought. */
export interface ReadResult {
  /** Not seen before, per bucket in the order of `seq`. */
  readonly messages: readonly OutboxMessage[];
  readonly durable: boolean;
  /** More are waiting. */
  readonly more: boolean;
  /** All that was concluded from earlier reads is void: another connection, perhaps to another server, or numbers that went back. */
  readonly startedOver?: boolean;
  /** And by another server, perhaps. It need not have what was read of the other one, and is not published yet. */
  readonly otherServer?: boolean;
}
const NOTHING: ReadResult = { messages: [], durable: true, more: false };

export interface ReaderSettings {
  /** Our own writes that are under way. */
  readonly ownWrites?: () => Promise<unknown> | undefined;
  readonly known?: KnownRows;
  /** Hears of what went out of order, or may have. */
  readonly warn?: (text: string) => void;
  readonly cost?: ReadCost | undefined;
  readonly fullScanEvery?: number;
}

/**
 * Reads what the leased buckets of one transport hold. Keeps, in memory only, how far each bucket was read (head), until
 * where nothing can appear any more (low-water mark), and which rows must not come out of a read again because they are being
 * published or their settle is on its way. Reads never overlap.
 */
export class Reader {
  readonly heads = new Map<number, string>();
  private reading = false;
  /** Reads at the heads that have returned: a write that is sent later is newer than all that they saw. */
  headReads = 0;
  /** Buckets that were given up since the last read began: what it returns of them is void, also when they were leased again. */
  private readonly forgotten = new Set<number>();
  /** Found by a sweep beyond what may be read at once: a large transaction that committed late. */
  private backlog: Place[] = [];
  /** What the fetch saw that the backlog was found for. */
  private backlogSeen: Snapshot | undefined;
  session: number | undefined;
  /** Of these, those from before its connection was another one. */
  private readsBeforeSession = -1;
  /** How often heads went back. A read that was under way meanwhile tells nothing of what is behind them now. */
  restarts = 0;
  private rotation = 0;
  /** Buckets whose last read came back full: more of them is waiting. */
  private readonly full = new Set<number>();
  /** Reads while some are full; one in {@link WIDE_EVERY} looks at all buckets. */
  private turn = 0;
  readonly known: KnownRows;
  readonly lateRows: LateRows;
  readonly numbers: NumberWatch;
  readonly catchUp: CatchUp;
  /** How often positions turned out to be wrong, so that everything was read again. */
  readAgain = 0;

  constructor(
    readonly store: Pick<ReadyStore, Reads>,
    readonly transport: number,
    readonly lowWaterMark: LowWaterMark,
    readonly clock: Clock,
    readonly settings: ReaderSettings = {},
  ) {
    const { known = new KnownRows(), ownWrites = () => undefined, cost, fullScanEvery } = settings;
    this.known = known;
    this.lateRows = new LateRows(store, transport, lowWaterMark, clock, ownWrites, cost, fullScanEvery);
    this.numbers = new NumberWatch();
    this.catchUp = new CatchUp(store.probe === undefined);
  }

  add(bucket: number): void {
    this.heads.set(bucket, '0');
    this.lowWaterMark.add(bucket);
  }

  /** How many it reads; `undefined` while some are not read to their ends. */
  get buckets(): number | undefined {
    return this.catchUp.isOn ? undefined : this.heads.size;
  }

  forget(bucket: number): void {
    this.heads.delete(bucket);
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
      if (this.backlog.length > 0) return await this.readBacklog(limit, this.restarts);
      const positions = this.positions(only);
      return positions.length === 0 ? NOTHING : await this.readHeads(limit, positions, this.restarts);
    } catch (error) {
      this.lose(); // what a sweep had found may be lost with the answer
      throw error;
    } finally {
      this.reading = false;
      this.known.forgetSettled();
    }
  }

  /** What is new beyond the heads, and before it what became visible behind them. */
  private async readHeads(limit: number, positions: readonly ReadPosition[], restarts: number): Promise<ReadResult> {
    const perBucket = this.rowsPerBucket(limit, positions.length);
    const { lateRows, known } = this;
    const { last } = this.numbers.source ?? {};
    const began = this.clock.monotonic();
    const fetched = await this.fetch(positions, { perBucket, limit }, last);
    if (fetched === undefined) return { ...NOTHING, more: true }; // nothing was swept yet
    const ms = this.clock.monotonic() - began;
    this.session ??= fetched.session;
    const ended = this.contradicted(fetched, restarts);
    if (ended !== undefined) return ended;
    const { places, complete, raise, overtaken } = await lateRows.find(fetched.snapshot, this.heads, positions, known);
    if (this.restarts !== restarts) return this.lose(); // what was found is of a range that has moved
    this.backlog = places.filter(({ bucket, seq }) => !known.has(seq) && this.isOurs(bucket));
    this.backlogSeen = fetched.snapshot;
    const below = this.backlog.find(({ bucket, seq }) => compareSeq(seq, this.lowWaterMark.of(bucket)) <= 0);
    if (below !== undefined) return this.startOver(`a message stood at number ${below.seq}, ${BELOW}`);
    if (overtaken !== undefined) this.settings.warn?.(overtaken);
    // The head fetch is made again when all that became visible behind it is read.
    if (this.backlog.length > limit || !complete) return await this.readBacklog(limit, restarts);
    const late = this.backlog.splice(0);
    const found = late.length === 0 ? undefined : await this.readPlaces(late, restarts);
    if (found?.ended !== undefined) return found.ended;
    raise?.(); // not before what the sweep found is in hand: a restart would skip it
    const messages = [...(found?.messages ?? [])];
    const reached = this.advance(fetched, positions, perBucket, limit);
    const isWhole = (bucket: number): boolean =>
      fetched.messages.length < limit && !this.full.has(bucket) && this.isOurs(bucket);
    const ends = this.catchUp.came({ positions, last, rows: fetched.messages.length, ms }, this.heads, isWhole);
    for (const [bucket, seq] of ends) {
      if (compareSeq(seq, this.heads.get(bucket) ?? '0') <= 0) continue;
      this.heads.set(bucket, seq);
      reached.delete(bucket); // it is not the last row that was read
    }
    for (const message of this.fresh(fetched.messages)) messages.push(message);
    this.lowWaterMark.passed(fetched, this.heads, reached);
    this.headReads += 1;
    for (const message of messages) known.add(message);
    const more = fetched.messages.length >= limit || this.full.size > 0 || this.catchUp.isOn;
    return { messages, durable: fetched.durable && (found?.durable ?? true), more };
  }

  /** @returns `undefined` where it took too long, and the next one asks for less */
  private async fetch(
    positions: readonly ReadPosition[],
    most: { perBucket: number; limit: number },
    last: string | undefined,
  ): Promise<FetchResult | undefined> {
    const { store, transport, clock, catchUp } = this;
    const { cost } = this.settings;
    const within = catchUp.limitOf(positions, last, this.full);
    const { asksFence } = this.lowWaterMark;
    const fetch = () => store.fetch({ transport, positions, ...most, within, asksFence });
    const began = clock.monotonic();
    try {
      return await (cost?.measure(fetch) ?? fetch());
    } catch (error) {
      if (!waitedTooLong(error)) throw error;
      catchUp.gaveUp(positions, clock.monotonic() - began);
      if (within === undefined) throw error; // to its end it takes as long as any statement may
      return undefined;
    }
  }

  /**
   * Looked at between the read and the publish: the process may have stood still since the look before, and numbers have gone back.
   * @returns what a read ends with of which nothing holds
   */
  private contradicted(
    found: Pick<FetchResult, 'session' | 'snapshot' | 'source'>,
    restarts: number,
  ): ReadResult | undefined {
    if (this.restarts !== restarts) return this.lose();
    if (this.session !== found.session) return this.startOver(found.session);
    const wrong = this.numbers.look(found, this.heads);
    return wrong === undefined ? undefined : this.startOver(wrong);
  }

  /**
   * Asked where nothing may be read for long, as a global order is held: whether nothing holds any more that was concluded from
   * earlier reads. The connection may be another one, or numbers went back, and soon pass those that were seen. Only the
   * reader may ask.
   */
  async mustReadAgain(): Promise<boolean> {
    const { transport, restarts } = this;
    if (this.heads.size === 0) return false;
    const found = await this.store.fetch({ transport, positions: [], perBucket: 1, limit: 1 });
    this.session ??= found.session;
    return this.contradicted(found, restarts)?.startedOver === true;
  }

  /** The row left the ready table, and the database said so. */
  settled(row: Pick<OutboxMessage, 'seq' | 'id'>): void {
    if (this.reading) this.known.settledMeanwhile.push(row);
    else this.known.delete(row);
  }

  /**
   * Whether a write, before which so many reads had returned, was sent before the connection was another one. After a failover its
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
      if (point !== undefined && compareSeq(seq, point) <= 0) points.set(bucket, (BigInt(seq) - 1n).toString());
    }
    this.goBack(points);
  }

  private goBack(points: ReadonlyMap<number, string>): void {
    this.restarts += 1;
    for (const [bucket, seq] of points) this.heads.set(bucket, seq);
    this.lowWaterMark.rewind(points);
    this.full.clear();
    this.backlog = [];
  }

  /**
   * Nothing that was concluded holds: all is read again, in order, and numbers alone tell nothing of who has them.
   * @param why another session, which may be one with another server; or what proves positions wrong
   */
  private startOver(why: number | string): ReadResult {
    const isSession = typeof why === 'number';
    if (isSession) {
      this.session = why;
      this.readsBeforeSession = this.headReads;
      this.numbers.newSession();
    } else {
      this.readAgain += 1;
      this.settings.warn?.(`${why}: everything is read again, in order`);
    }
    this.known.distrust();
    const points = new Map([...this.heads.keys()].map((bucket) => [bucket, '0']));
    for (const bucket of points.keys()) {
      this.lowWaterMark.forget(bucket);
      this.lowWaterMark.add(bucket);
    }
    this.goBack(points);
    return { ...NOTHING, more: true, startedOver: true, otherServer: isSession || this.numbers.isOfOther };
  }

  /** What was read since tells nothing. It is looked for again, also what only a full scan finds. */
  private lose(): ReadResult {
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
    const { messages, durable, ended } = await this.readPlaces(now, restarts);
    if (ended !== undefined) return ended;
    this.backlog = later.filter(({ bucket }) => !this.forgotten.has(bucket));
    for (const message of messages) this.known.add(message);
    return { messages, durable, more: true };
  }

  /** What a sweep found. `ended`: nothing of it holds. */
  private async readPlaces(places: readonly Place[], restarts: number) {
    const found = await this.store.readPlaces(this.transport, places, this.backlogSeen);
    const ended = this.contradicted(found, restarts);
    return { messages: this.fresh(found.messages), durable: found.durable, ended };
  }

  private fresh(messages: readonly OutboxMessage[]): OutboxMessage[] {
    return messages.filter((message) => this.known.isNew(message) && this.isOurs(message.bucket));
  }

  /** Leased since before the read began. */
  private isOurs(bucket: number): boolean {
    return this.heads.has(bucket) && !this.forgotten.has(bucket);
  }

  /** Not past the last number that was given out: where a sequence was set back below rows, new ones come before these. */
  private advance(
    { messages, source }: Pick<FetchResult, 'messages' | 'source'>,
    positions: readonly ReadPosition[],
    perBucket: number,
    limit: number,
  ): Map<number, OutboxMessage> {
    const last = source?.last;
    const reached = new Map<number, OutboxMessage>();
    // There the read was cut: of what comes behind, nothing new is known.
    const cutIn = messages.length < limit ? undefined : messages.at(-1)?.bucket;
    for (const { bucket: read } of positions) {
      this.full.delete(read);
      if (read === cutIn) break;
    }
    let bucket = -1;
    let count = 0;
    for (let i = 0; i < messages.length; i += 1) {
      const message = messages[i] as OutboxMessage;
      if (message.bucket !== bucket) [bucket, count] = [message.bucket, 0];
      count += 1;
      if (messages[i + 1]?.bucket === bucket || !this.isOurs(bucket)) continue;
      if (count >= perBucket || bucket === cutIn) this.full.add(bucket);
      const isGivenOut = last === undefined || compareSeq(message.seq, last) <= 0;
      this.heads.set(bucket, isGivenOut ? message.seq : last);
      if (isGivenOut) reached.set(bucket, message);
    }
    return reached;
  }

  private rowsPerBucket(limit: number, buckets: number): number {
    const { size } = this.full;
    const fair = size === 0 ? MIN_PER_BUCKET : Math.ceil(limit / Math.min(size, buckets));
    return Math.min(limit, Math.max(MIN_PER_BUCKET, fair));
  }

  /** Rotated, so that a limit does not always favour the same buckets. */
  private positions(only: number | undefined): ReadPosition[] {
    if (only !== undefined) return this.heads.has(only) ? [this.position(only)] : [];
    const { bucketsPerRead } = this.store;
    const few = bucketsPerRead !== undefined && this.full.size > 0 && (this.turn = (this.turn + 1) % WIDE_EVERY) !== 0;
    // Who was read goes to the end of `full`.
    if (few) return [...this.full].slice(0, bucketsPerRead).map((bucket) => this.position(bucket));
    const all = [...this.heads.keys()];
    this.rotation = all.length === 0 ? 0 : (this.rotation + 1) % all.length;
    const rotated = [...all.slice(this.rotation), ...all.slice(0, this.rotation)];
    return rotated.slice(0, this.catchUp.buckets).map((bucket) => this.position(bucket));
  }

  private position(bucket: number): ReadPosition {
    return this.catchUp.position(bucket, this.heads.get(bucket) ?? '0', this.numbers.source?.last);
  }
}

/** Rows per bucket when all of them have some: 32 × 16 = 512, one batch. */
const MIN_PER_BUCKET = 16;
/** Of a row that a scan found at or below the low-water mark. */
const BELOW = 'where none could appear any more (numbers that went back, or a writer that sets them by hand)';
/** Of the reads under a backlog one in so many looks at all buckets, where the others look at a few. */
const WIDE_EVERY = 12;
