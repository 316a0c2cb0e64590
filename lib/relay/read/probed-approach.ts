import { pause, type Clock } from '../../time/clock.js';
import type { Place } from '../../outbox-message.js';
import { STATEMENT_TIMEOUT, waitedTooLong } from '../../store/database-errors.js';
import type { ReadyStore } from '../../store/ready-store.js';
import type { Asked } from './approach.js';
import type { Heads } from './low-water-mark.js';
import type { ProbedLowWaterMark } from './probed-low-water-mark.js';
import type { ReadCost } from './read-cost.js';

/** Of a bucket: that nothing is up to there, and nothing can appear. */
interface Claim {
  readonly upTo: string;
  /** Monotonic; these numbers were given out before. */
  readonly since: number;
  readonly tries: number;
  readonly tryAt: number;
}
/** What shows it: the number before the first row, and whether a dirty read saw nothing else. */
interface Look {
  readonly head: string;
  readonly clean: boolean;
}
type Store = Required<Pick<ReadyStore, 'lowest' | 'probe' | 'numberSource'>> & Pick<ReadyStore, 'fetch'>;

/**
 * The approach where reads prove nothing about open transactions (MySQL, MariaDB). Where a look for the first rows is quick,
 * buckets are fetched from 0, and swept while the marks stand there. Where it is given up after milliseconds, rows that are gone
 * stand in the way, and neither fetches nor sweeps nor probes may walk over them again and again. Then each bucket is
 * looked at by itself, one in a read, others being read between two, and it joins with its head and both marks before its first row.
 *
 * That nothing appears below rests on three facts. An INSERT that begins later gets a higher number than those that were given
 * out. Once no older one holds a number that it has not inserted, what may still appear is uncommitted, and a dirty read
 * sees it. What a committed read after that does not see, is not there. An INSERT is allowed 2 s, as above the upper mark; so the
 * low-water mark stays at 0 until a later look, when none can wait for a lock any more. Those looks take 2 % of the time; a row that one of
 * them meets is swept for.
 */
export class ProbedApproach {
  /** Buckets that nobody looked at. */
  readonly waiting = new Set<number>();
  /** Rows that are gone stand in their way. */
  private readonly costly = new Set<number>();
  /** For the upper mark. */
  private readonly first = new Map<number, Claim>();
  /** For the lower mark, of buckets that have joined; who was looked at goes to the end. */
  readonly second = new Map<number, Claim>();
  /** Milliseconds after which the server gives up a look. */
  private limit = LIMIT;
  private pauseUntil = -Infinity;
  /** Rows where none was when their bucket joined. */
  private met: Place[] = [];
  /** Set by the relay. */
  cost: ReadCost | undefined;

  constructor(
    readonly store: Store,
    readonly transport: number,
    readonly lowWaterMark: ProbedLowWaterMark,
    readonly clock: Clock,
  ) {}

  get isOn(): boolean {
    return this.waiting.size > 0 || this.costly.size > 0 || this.first.size > 0;
  }

  has(bucket: number): boolean {
    return this.waiting.has(bucket) || this.costly.has(bucket) || this.first.has(bucket);
  }

  add(bucket: number): void {
    this.forget(bucket);
    this.waiting.add(bucket);
  }

  /** @returns what nobody swept for yet */
  takeMet(): readonly Place[] {
    return this.met.splice(0);
  }

  forget(bucket: number): void {
    this.met = this.met.filter((place) => place.bucket !== bucket);
    for (const each of [this.waiting, this.costly, this.first, this.second]) each.delete(bucket);
  }

  /** What was found holds no longer. */
  restart(): void {
    for (const bucket of [...this.costly, ...this.first.keys()]) this.waiting.add(bucket);
    for (const each of [this.costly, this.first, this.second]) each.clear();
    this.met = [];
  }

  /** The last number is to be known. */
  get asksEdge(): boolean {
    return this.costly.size > 0;
  }

  /** The session comes first: of an answer that another one gave, nothing is concluded. */
  async edge(): Promise<Asked> {
    const { session } = await this.store.fetch({ transport: this.transport, positions: [], perBucket: 1, limit: 1 });
    return { session, source: await this.store.numberSource(), snapshot: undefined };
  }

  /**
   * @param given given up, and had again, since the read began: the answer may be older
   * @returns buckets that are fetched from their beginning, as nobody says what the last number is, or there is none
   */
  begin({ source }: Pick<Asked, 'source'>, given: ReadonlySet<number>): Heads {
    const buckets = [...this.costly].filter((bucket) => !given.has(bucket));
    for (const bucket of buckets) this.costly.delete(bucket);
    this.limit = LIMIT;
    const upTo = source?.last ?? '0';
    if (upTo === '0') return fromStart(buckets);
    const since = this.clock.monotonic();
    for (const bucket of buckets) this.first.set(bucket, { upTo, since, tries: 0, tryAt: since });
    return NONE;
  }

  /** Statements for one bucket. @returns until where the buckets are read that join now */
  async goOn(): Promise<Heads> {
    await this.proveLowWaterMark();
    if (this.waiting.size > 0) return this.lookAtOnce();
    const next = this.next(this.first, this.lowWaterMark.upper.age);
    if (next !== undefined) return this.approach(...next);
    if (this.first.size > 0) await pause(this.clock, REST);
    return NONE;
  }

  private async lookAtOnce(): Promise<Heads> {
    const buckets = [...this.waiting];
    try {
      const ranges = buckets.map((bucket) => ({ bucket, after: '0', upTo: HIGHEST }));
      await this.store.lowest(this.transport, ranges, LIMIT);
      return fromStart(buckets.filter((bucket) => this.waiting.delete(bucket)));
    } catch (error) {
      if (!waitedTooLong(error)) throw error;
      this.cost?.took(LIMIT);
      for (const bucket of buckets) if (this.waiting.delete(bucket)) this.costly.add(bucket);
      return NONE;
    }
  }

  private async approach(bucket: number, claim: Claim): Promise<Heads> {
    const look = await this.look(bucket, claim);
    if (look === undefined || this.first.get(bucket) !== claim) return NONE; // given up meanwhile
    this.first.delete(bucket);
    const { upTo, since, tries } = claim;
    if (!look.clean && tries < TRIES) {
      // Rows that come and go disturb a dirty read. What stays is a transaction that is open.
      this.first.set(bucket, { upTo, since, tries: tries + 1, tryAt: this.clock.monotonic() + AGAIN });
      return NONE;
    }
    if (look.clean && look.head !== '0') {
      this.lowWaterMark.join(bucket, look.head);
      this.second.set(bucket, { upTo: look.head, since, tries: 0, tryAt: this.clock.monotonic() + RARELY });
    }
    return new Map([[bucket, look.head]]);
  }

  private async proveLowWaterMark(): Promise<void> {
    const began = this.clock.monotonic();
    const [bucket, claim] =
      (began < this.pauseUntil ? undefined : this.next(this.second, this.lowWaterMark.upper.age)) ?? [];
    if (bucket === undefined || claim === undefined) return;
    const least = RARELY / this.second.size;
    const look = await this.look(bucket, claim).catch((error: unknown) => {
      if (!waitedTooLong(error)) throw error;
      return undefined; // with all the time that there is: the low-water mark stays, and nobody is held up for it
    });
    const now = this.clock.monotonic();
    this.pauseUntil = now + Math.max((now - began) * PAUSE, least);
    if (this.second.get(bucket) !== claim) return;
    this.second.delete(bucket);
    const isEmpty = look?.head === claim.upTo;
    if (look !== undefined && !isEmpty) this.met.push({ bucket, seq: (BigInt(look.head) + 1n).toString() });
    const isOver = isEmpty && look?.clean === true && began >= claim.since + this.lowWaterMark.lower.age;
    if (isOver) this.lowWaterMark.proved(bucket);
    else this.second.set(bucket, claim);
  }

  private next(claims: ReadonlyMap<number, Claim>, age: number): [number, Claim] | undefined {
    const now = this.clock.monotonic();
    return [...claims].find(([, { since, tryAt }]) => now >= since + age && now >= tryAt);
  }

  /** The committed read comes after the dirty one. */
  private async look(bucket: number, { upTo }: Claim): Promise<Look | undefined> {
    const { transport, limit } = this;
    const ranges = [{ bucket, after: '0', upTo }];
    const began = this.clock.monotonic();
    try {
      const { clean, lockWait } = await this.store.probe(transport, ranges, limit);
      this.lowWaterMark.waits(lockWait);
      const { places } = await this.store.lowest(transport, ranges, limit);
      this.cost?.took(this.clock.monotonic() - began);
      const [row] = places;
      return { clean: clean[0] === true, head: row === undefined ? upTo : (BigInt(row.seq) - 1n).toString() };
    } catch (error) {
      if (!waitedTooLong(error) || limit >= STATEMENT_TIMEOUT) throw error;
      this.cost?.took(this.clock.monotonic() - began);
      this.limit = Math.min(2 * limit, STATEMENT_TIMEOUT); // a bucket with more of them, or a busy server
      return undefined;
    }
  }
}

const fromStart = (buckets: Iterable<number>): Heads => new Map([...buckets].map((bucket) => [bucket, '0']));
const NONE: Heads = new Map();
/** No table numbers beyond it. */
const HIGHEST = String(2n ** 64n - 1n);
/** Milliseconds. */
const LIMIT = 50;
/** Milliseconds, while nothing may be asked. */
const REST = 10;
/** Milliseconds after which a bucket is looked at again in which an uncommitted row was, and how often it is. */
const AGAIN = 250;
const TRIES = 4;
/** Times what a later look took: 2 % of the time. And milliseconds in which each bucket has one, if they are quick. */
const PAUSE = 50;
const RARELY = 1_000;
