import { KeyQueues } from '../claim/key-queues.js';
import { ParkedKeys } from '../claim/parked-keys.js';
import type { OutboxMessage } from '../message.js';
import type { Lease } from '../store/lease-store.js';
import type { DueRow, KeyInBucket, TakeResult } from '../store/parked-store.js';
import type { Transition } from '../settle/settler.js';
import type { GlobalHold } from './global-hold.js';
import type { LaneDependencies } from './lane.types.js';

export interface ParkedReaderEvents {
  /** Marked as being sent by us: to be published now. */
  accept(messages: readonly OutboxMessage[]): void;
  /** Marked, but not to be published now. */
  giveBack(messages: readonly OutboxMessage[]): void;
  /** A message of this key cannot be parked: the store does not see it. */
  isAside(bucket: number, key: string): boolean;
  /** Rows of these buckets may have been marked without our hearing which: only a new epoch takes them again. */
  uncertain(buckets: readonly number[]): void;
}

interface Due {
  /** May be taken now. */
  readonly free: readonly DueRow[];
  /** Whether anything is due. */
  readonly some: boolean;
  readonly more: boolean;
  readonly nextIn: number | null;
}

/**
 * Brings parked messages back: those whose time has come, and those whose key can go on. Also knows which keys are
 * blocked. One pass is `runOnce`.
 *
 * A key stays in `keys` from the moment when something of it is, or may be, parked until the store says that no blocking
 * row of it is left, and nothing of it was parked while we asked. In a global order everything is of the key `''`.
 */
export class ParkedReader {
  /** Keys whose first blocking row was settled, or may have been. */
  readonly toContinue = new Map<string, KeyInBucket>();
  /** Transitions on their way, by key: until they are written the store does not see them. */
  readonly pending = new Map<string, number>();
  /**
   * Of these, keys that a failure closed, or of which taken rows are given back: the store would let others past them, or
   * the same once more, which the transition, written again after a lost answer, would take for the row that it is about.
   */
  readonly closed = new Map<string, number>();
  /** Rows that are given back, likewise. */
  readonly unwritten = new Set<string>();
  /** Keys of which something was parked while a take is under way; `undefined`: none is. */
  parkedMeanwhile: Set<string> | undefined;
  loadedAt = 0;
  /** With more blocked keys than fit into memory: of each bucket the last one that was loaded. Empty: all were. */
  readonly loadedUpTo = new Map<number, string>();
  recheckedAt = -Infinity;
  /** When larger pages were looked through in vain: passes may follow each other fast. */
  lookedPastAt = -Infinity;

  constructor(
    readonly lane: LaneDependencies,
    readonly queues: KeyQueues,
    readonly events: ParkedReaderEvents,
    readonly hold: Pick<GlobalHold, 'hold'>,
    readonly keys = new ParkedKeys(),
  ) {}

  /** @internal */ get isGlobal(): boolean {
    return this.lane.options.ordering === 'global';
  }

  /** Must have run for a bucket before its ready rows are read. */
  async load(buckets: readonly number[]): Promise<void> {
    const { store, id } = this.lane;
    this.loadedAt = this.lane.clock.monotonic();
    if (this.isGlobal) {
      if (await store.hasBlocking(id, buckets)) for (const bucket of buckets) this.found(bucket, '', true);
      return;
    }
    const rows = await store.blockingKeys(id, buckets, this.keys.limit, this.loadedUpTo);
    const more = rows.length >= this.keys.limit;
    if (more) this.keys.overflow = true;
    else for (const bucket of buckets) this.loadedUpTo.delete(bucket);
    for (const { bucket, key, ready } of rows) {
      this.found(bucket, key, ready);
      if (more) this.loadedUpTo.set(bucket, key);
    }
  }

  /** @internal */ found(bucket: number, key: string, ready: boolean): void {
    this.keys.add(bucket, key);
    if (ready) this.toContinue.set(key, { bucket, key });
  }

  forget(bucket: number): void {
    this.keys.forget(bucket);
    this.loadedUpTo.delete(bucket);
    for (const [key, at] of this.toContinue) if (at.bucket === bucket) this.toContinue.delete(key);
  }

  /** A transition was handed to the settler. */
  parking(transition: Transition): void {
    const { message, blocks } = transition;
    if (message.parkedId !== null) this.unwritten.add(message.parkedId);
    const key = this.queues.gateOf(message);
    if (key === null || !blocks) return;
    this.keys.addBeyond(message.bucket, key);
    count(this.pending, key, 1);
    if (closes(transition)) count(this.closed, key, 1);
    this.parkedMeanwhile?.add(key);
  }

  /** It was written, or is void. */
  parked(transition: Transition): void {
    const { message, blocks } = transition;
    if (message.parkedId !== null) this.unwritten.delete(message.parkedId);
    const key = this.queues.gateOf(message);
    if (key === null || !blocks) return;
    count(this.pending, key, -1);
    if (closes(transition)) count(this.closed, key, -1);
  }

  /** The row in front of this key's blocked ones is gone. */
  continueKey(bucket: number, key: string): void {
    this.toContinue.set(key, { bucket, key });
  }

  /** @returns what was found, and in how many milliseconds the next row falls due at the earliest */
  async runOnce(
    buckets: readonly number[],
    leases: readonly Lease[],
    limit: number,
  ): Promise<{ taken: number; nextIn: number | null }> {
    if (buckets.length === 0) return { taken: 0, nextIn: null };
    await this.reload(buckets);
    const isOrdered = this.lane.options.ordering !== 'none';
    const { free, some, more, nextIn } = await this.due(buckets, limit);
    const due = free.map((row) => (isOrdered ? row : { ...row, key: null }));
    const keys = this.keysToAsk(Math.max(1, limit - due.length));
    // Nothing is read past them: what is in memory goes first, or under load their turn would never come.
    if (this.isGlobal && (some || keys.length > 0)) this.hold.hold();
    if (due.length === 0 && keys.length === 0) return { taken: 0, nextIn };
    const perKey = Math.min(PER_KEY, Math.floor(limit / (due.length + keys.length)));
    const taken = await this.take(due, keys, leases, Math.max(1, perKey));
    return { taken, nextIn: more ? 0 : nextIn };
  }

  /**
   * What is due of a key that is busy, or closed for as long as a row cannot be written, stays in front. A page of nothing
   * else hides what is due of all others: a larger one follows.
   * @internal
   */
  async due(buckets: readonly number[], limit: number): Promise<Due> {
    for (let page = limit; ; page = Math.min(MOST_DUE, Math.max(1_000, page * 4))) {
      const { rows, nextIn } = await this.lane.store.due(this.lane.id, buckets, page);
      const free: DueRow[] = [];
      for (const row of rows) if (free.length < limit && this.mayTake(row)) free.push(row);
      const more = rows.length >= page;
      const found = { free, some: rows.length > 0, more, nextIn };
      if (free.length > 0 || this.isGlobal) return found;
      const now = this.lane.clock.monotonic();
      if (!more || page >= MOST_DUE) {
        if (page > limit) this.lookedPastAt = now;
        return found;
      }
      if (page === limit && now - this.lookedPastAt < this.lane.options.pollInterval) return found;
    }
  }

  /** While a key has a message on its way, its parked rows wait; the key is marked, so that they come next. @internal */
  mayTake({ parkedId, bucket, key }: DueRow): boolean {
    if (this.unwritten.has(parkedId)) return false;
    if (this.lane.options.ordering === 'none' || key === null) return true;
    this.keys.addBeyond(bucket, key);
    if (!this.isGlobal) this.queues.bar(key); // in a global order the hold does it
    return this.isFree(key);
  }

  /** @internal */ isFree(key: string): boolean {
    return !this.queues.has(key) && !this.closed.has(key);
  }

  /** Keys that can go on, and now and then some more in turn. @internal */
  keysToAsk(limit: number): KeyInBucket[] {
    const asked = new Map<string, KeyInBucket>();
    for (const [key, at] of this.toContinue) {
      if (asked.size >= limit) break;
      if (this.isFree(key)) asked.set(key, at);
    }
    const now = this.lane.clock.monotonic();
    if (now - this.recheckedAt < this.lane.options.pollInterval) return [...asked.values()];
    this.recheckedAt = now;
    const more = Math.min(RECHECK, limit - asked.size);
    for (const at of this.keys.next(more)) if (this.isFree(at.key)) asked.set(at.key, at);
    return [...asked.values()];
  }

  /** @internal */ async take(
    due: readonly DueRow[],
    keys: readonly KeyInBucket[],
    leases: readonly Lease[],
    perKey: number,
  ): Promise<number> {
    const unwritten = new Set(this.pending.keys());
    this.parkedMeanwhile = new Set();
    try {
      for (const { key } of keys) this.toContinue.delete(key);
      const result = await this.mark(due, keys, leases, perKey);
      if (!result.durable) await this.flush(result.messages);
      for (const { bucket, key } of result.clear) {
        if (this.events.isAside(bucket, key)) continue; // whoever writes it says so
        if (unwritten.has(key) || this.parkedMeanwhile.has(key)) this.continueKey(bucket, key);
        else this.keys.delete(bucket, key);
      }
      this.events.accept(result.messages);
      return result.messages.length;
    } catch (error) {
      for (const at of keys) this.toContinue.set(at.key, at);
      throw error;
    } finally {
      this.parkedMeanwhile = undefined;
    }
  }

  /** @internal */ async mark(
    due: readonly DueRow[],
    keys: readonly KeyInBucket[],
    leases: readonly Lease[],
    perKey: number,
  ): Promise<TakeResult> {
    const { store, id, leases: owned } = this.lane;
    const epochs = new Map(leases.map(({ bucket, epoch }) => [bucket, epoch]));
    try {
      const result = await store.take({ owner: owned.owner, transport: id, leases, due, keys, perKey });
      // Those of a lease that was lost meanwhile stay marked under its epoch: whoever has the bucket now takes them again.
      // And of its keys the next owner may have parked something since; under our next lease they are loaded anew.
      const isOurs = ({ bucket }: { readonly bucket: number }): boolean =>
        owned.lease(id, bucket)?.epoch === epochs.get(bucket);
      return { ...result, messages: result.messages.filter(isOurs), clear: result.clear.filter(isOurs) };
    } catch (error) {
      this.events.uncertain([...new Set([...due, ...keys].map(({ bucket }) => bucket))]);
      throw error;
    }
  }

  /** Rows that were taken and cannot be vouched for are given back. @internal */
  async flush(taken: readonly OutboxMessage[]): Promise<void> {
    try {
      await this.lane.store.flush();
    } catch (error) {
      this.events.giveBack(taken);
      throw error;
    }
  }

  /** More keys are blocked than fit into memory: the store is asked about those at hand. */
  async ask(messages: readonly OutboxMessage[]): Promise<void> {
    const keys = messages.flatMap(({ bucket, key }) =>
      key === null || this.keys.has(bucket, key) ? [] : [{ bucket, key }],
    );
    for (const { bucket, key } of await this.lane.store.blockedAmong(this.lane.id, keys))
      this.keys.addBeyond(bucket, key);
    // The store does not know yet what is not written.
    for (const { bucket, key } of keys)
      if (this.pending.has(key) || this.events.isAside(bucket, key)) this.keys.addBeyond(bucket, key);
  }

  /** Past the bound of `keys` they are loaded in turn: a part at each pass until all were, and again now and then. @internal */
  async reload(buckets: readonly number[]): Promise<void> {
    if (!this.keys.overflow || this.toContinue.size >= this.keys.limit) return;
    if (this.loadedUpTo.size === 0 && this.lane.clock.monotonic() - this.loadedAt < RELOAD_EVERY) return;
    await this.load(buckets);
  }
}

/** More can come of a key whose first row failed, or is given back; of what is parked behind it there may be no end. */
const closes = ({ message, state }: Transition): boolean => message.parkedId !== null || state !== 'blocked';

function count(counts: Map<string, number>, key: string, by: number): void {
  const sum = (counts.get(key) ?? 0) + by;
  if (sum > 0) counts.set(key, sum);
  else counts.delete(key);
}

/** Blocked rows of one key that are brought back at once. */
const PER_KEY = 100;
/** Blocked keys that are asked for, once per poll, although nothing says that they can go on. */
const RECHECK = 50;
const RELOAD_EVERY = 30_000;
/** Due rows that one pass looks at: their places and keys. */
const MOST_DUE = 100_000;
