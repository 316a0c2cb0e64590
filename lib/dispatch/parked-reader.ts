import { KeyQueues } from '../claim/key-queues.js';
import { ParkedKeys } from '../claim/parked-keys.js';
import type { OutboxMessage } from '../message.js';
import type { Lease } from '../store/lease-store.js';
import type { DueRow, KeyInBucket, TakeResult } from '../store/parked-store.js';
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

/**
 * Brings parked messages back: those whose time has come, and those whose key can go on. Also knows which keys are
 * blocked. One pass is `runOnce`.
 *
 * A key stays in `keys` from the moment when something of it is, or may be, parked until the store says that no blocking
 * row of it is left, and nothing of it was parked while we asked.
 */
export class ParkedReader {
  readonly keys = new ParkedKeys();
  /** Keys whose first blocking row was settled, or may have been. */
  readonly toContinue = new Map<string, KeyInBucket>();
  /** Transitions on their way, by key: until they are written the store does not see them. */
  readonly pending = new Map<string, number>();
  /** Keys of which something was parked while a take is under way; `undefined`: none is. */
  parkedMeanwhile: Set<string> | undefined;
  loadedAt = 0;
  recheckedAt = -Infinity;

  constructor(
    readonly lane: LaneDependencies,
    readonly queues: KeyQueues,
    readonly events: ParkedReaderEvents,
  ) {}

  /** Must have run for a bucket before its ready rows are read. */
  async load(buckets: readonly number[]): Promise<void> {
    const { store, id } = this.lane;
    this.loadedAt = this.lane.clock.monotonic();
    const rows = await store.blockingKeys(id, buckets, this.keys.limit);
    if (rows.length >= this.keys.limit) this.keys.overflow = true;
    for (const { bucket, key, ready } of rows) {
      this.keys.add(bucket, key);
      if (ready) this.toContinue.set(key, { bucket, key });
    }
  }

  forget(bucket: number): void {
    this.keys.forget(bucket);
    for (const [key, at] of this.toContinue) if (at.bucket === bucket) this.toContinue.delete(key);
  }

  /** A transition of this key was handed to the settler. */
  parking(bucket: number, key: string): void {
    this.keys.addBeyond(bucket, key);
    this.pending.set(key, (this.pending.get(key) ?? 0) + 1);
    this.parkedMeanwhile?.add(key);
  }

  /** It was written. */
  parked(key: string): void {
    const left = (this.pending.get(key) ?? 0) - 1;
    if (left > 0) this.pending.set(key, left);
    else this.pending.delete(key);
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
    // Only an order per key has rows that wait behind others of their key.
    const ordered = this.lane.options.ordering === 'key';
    const { rows, nextIn } = await this.lane.store.due(this.lane.id, buckets, limit);
    const due = rows.filter((row) => this.mayTake(row)).map((row) => (ordered ? row : { ...row, key: null }));
    const keys = this.keysToAsk(Math.max(1, limit - due.length));
    if (due.length === 0 && keys.length === 0) return { taken: 0, nextIn };
    const perKey = Math.min(PER_KEY, Math.floor(limit / (due.length + keys.length)));
    const taken = await this.take(due, keys, leases, this.lane.options.ordering === 'global' ? 1 : Math.max(1, perKey));
    return { taken, nextIn: rows.length >= limit ? 0 : nextIn };
  }

  /** While a key has a message on its way, its parked rows wait; the key is marked, so that they come next. @internal */
  mayTake({ bucket, key }: DueRow): boolean {
    const { ordering } = this.lane.options;
    if (ordering === 'global') return !this.queues.has('');
    if (ordering === 'none' || key === null) return true;
    this.keys.addBeyond(bucket, key);
    return !this.queues.has(key);
  }

  /** Keys that can go on, and now and then some more in turn. @internal */
  keysToAsk(limit: number): KeyInBucket[] {
    const asked = new Map<string, KeyInBucket>();
    for (const [key, at] of this.toContinue) {
      if (asked.size >= limit) break;
      if (!this.queues.has(key)) asked.set(key, at);
    }
    const now = this.lane.clock.monotonic();
    if (now - this.recheckedAt < this.lane.options.pollInterval) return [...asked.values()];
    this.recheckedAt = now;
    const more = Math.min(RECHECK, limit - asked.size);
    for (const at of this.keys.next(more)) if (!this.queues.has(at.key)) asked.set(at.key, at);
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
      const messages = result.messages.filter(({ bucket }) => owned.lease(id, bucket)?.epoch === epochs.get(bucket));
      return { ...result, messages };
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
    for (const { bucket, key } of keys) if (this.events.isAside(bucket, key)) this.keys.addBeyond(bucket, key);
  }

  /** Past the bound of `keys` some may never have been loaded: look again now and then. @internal */
  async reload(buckets: readonly number[]): Promise<void> {
    if (!this.keys.overflow || this.lane.clock.monotonic() - this.loadedAt < RELOAD_EVERY) return;
    await this.load(buckets);
  }
}

/** Blocked rows of one key that are brought back at once. */
const PER_KEY = 100;
/** Blocked keys that are asked for, once per poll, although nothing says that they can go on. */
const RECHECK = 50;
const RELOAD_EVERY = 30_000;
