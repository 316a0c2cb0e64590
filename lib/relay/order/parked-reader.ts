import type { Ledger } from '../ledger.js';
import { ParkedKeys } from './parked-keys.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { Lease } from '../../store/lease-store.js';
import type { DueRow, KeyInBucket, TakeResult } from '../../store/parked-store.js';
import type { Decided } from '../settle/settler.js';
import { closes } from '../settle/unwritten.js';
import { DueRows } from './due-rows.js';
import type { GlobalOrderGate } from './global-order-gate.js';
import type { TransportRelayDependencies } from '../relay.types.js';
import { BlockedKeyRecheck } from './blocked-key-recheck.js';

export interface ParkedReaderEvents {
  /** Marked as being sent by us: to be published now. */
  accept(messages: readonly OutboxMessage[]): void;
  /** Marked, but not to be published now. */
  giveBack(messages: readonly OutboxMessage[]): void;
  /** Whether the bucket is held, and its blocked keys are known. */
  isOpen(bucket: number): boolean;
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
 * row of it is left, and nothing of it was parked while we asked. In a global order everything is of the key `''`.
 */
export class ParkedReader {
  /** Keys whose first blocking row was settled, or may have been. */
  readonly toContinue = new Map<string, KeyInBucket>();
  /** Keys of which something was parked while a take is under way; `undefined`: none is. */
  parkedMeanwhile: Set<string> | undefined;
  loadedAt = 0;
  /** With more blocked keys than fit into memory: of each bucket the last one that was loaded. Empty: all were. */
  readonly loadedUpTo = new Map<number, string>();
  /** Buckets of which rows were marked as being sent, under the present lease. */
  readonly marked = new Set<number>();
  /**
   * Bucket → epoch under which rows of it were marked, or may have been, that nobody sends now. The next epoch takes them again.
   * A failover that lost the lease may give out the same number once more.
   */
  readonly stranded = new Map<number, string>();
  /** @internal */ readonly dueRows: DueRows;
  /** @internal */ readonly recheck: BlockedKeyRecheck;

  constructor(
    readonly relay: TransportRelayDependencies,
    readonly ledger: Ledger,
    readonly events: ParkedReaderEvents,
    readonly hold: Pick<GlobalOrderGate, 'hold'>,
    readonly keys = new ParkedKeys(),
  ) {
    this.dueRows = new DueRows(relay, (row) => this.mayTake(row), this.continueKey.bind(this));
    this.recheck = new BlockedKeyRecheck(relay, keys, (key) => ledger.isFree(key));
  }

  /** @internal */ get isGlobal(): boolean {
    return this.relay.options.ordering === 'global';
  }

  /** Must have run for a bucket before its ready rows are read. */
  async load(buckets: readonly number[]): Promise<void> {
    const { store, id } = this.relay;
    this.loadedAt = this.relay.clock.monotonic();
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
    this.marked.delete(bucket);
    this.loadedUpTo.delete(bucket);
    this.recheck.forget(bucket);
    this.dueRows.forget(bucket);
    for (const [key, at] of this.toContinue) if (at.bucket === bucket) this.toContinue.delete(key);
  }

  /** These are read from now on. Where the epoch is one of rows that nobody takes again, another one is asked for. */
  opened(buckets: readonly number[]): void {
    const again = buckets.filter((bucket) => this.stranded.get(bucket) === this.epochOf(bucket));
    for (const bucket of buckets) this.stranded.delete(bucket);
    if (again.length > 0) this.events.uncertain(again);
  }

  /**
   * Another server may answer, which has a mark of ours and not what followed it: nobody takes that row again under this epoch.
   */
  doubt(): void {
    if (this.marked.size > 0) this.events.uncertain([...this.marked]);
  }

  /** A transition is on its way. */
  parking({ message, blocks }: Decided): void {
    const key = this.ledger.queues.gateOf(message);
    if (key === null || !blocks) return;
    this.keys.addBeyond(message.bucket, key);
    this.parkedMeanwhile?.add(key);
  }

  /** It was written, or is void. */
  parked(decided: Decided): void {
    const { message, blocks } = decided;
    const key = this.ledger.queues.gateOf(message);
    if (key !== null && blocks && !closes(decided)) this.recheck.parkedBehind(message.bucket, key);
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
    const held = new Set(buckets);
    if (!this.isGlobal) for (const { bucket, key } of await this.recheck.freed(held)) this.continueKey(bucket, key);
    const isOrdered = this.relay.options.ordering !== 'none';
    // Whatever is taken here is a key to ask for later: without a share of the pass these would pile up.
    const share = Math.min(this.toContinue.size, limit >> 1);
    const { free, some, more, nextIn } = await this.dueRows.find(buckets, limit - share);
    const due = free.map((row) => (isOrdered ? row : { ...row, key: null }));
    const keys = this.keysToAsk(Math.max(1, limit - due.length), held);
    // Nothing is read past them: what is in memory goes first, or under load their turn would never come.
    if (this.isGlobal && (some || keys.length > 0)) this.hold.hold();
    if (due.length === 0 && keys.length === 0) return { taken: 0, nextIn };
    const perKey = Math.min(PER_KEY, Math.floor(limit / (due.length + keys.length)));
    const taken = await this.take(due, keys, leases, Math.max(1, perKey));
    return { taken, nextIn: more ? 0 : nextIn };
  }

  /** While a key has a message on its way, its parked rows wait; the key is marked, so that they come next. @internal */
  mayTake({ parkedId, bucket, key }: DueRow): boolean {
    if (this.ledger.unwritten.rows.has(parkedId)) return false;
    if (this.relay.options.ordering === 'none' || key === null) return true;
    this.keys.addBeyond(bucket, key);
    if (!this.isGlobal) this.ledger.queues.bar(key); // in a global order the hold does it
    if (!this.ledger.isFree(key)) return false;
    this.keys.keepWhileTaken(bucket, key);
    return true;
  }

  /** Of the buckets that are held keys that can go on, and now and then some more in turn. @internal */
  keysToAsk(limit: number, held: ReadonlySet<number>): KeyInBucket[] {
    const { inTurn, behind } = this.recheck.toAsk(limit, held);
    const asked = new Map(inTurn.map((at) => [at.key, at]));
    for (const { bucket, key } of behind) this.continueKey(bucket, key);
    for (const [key, at] of this.toContinue) {
      if (asked.size >= limit) break;
      if (held.has(at.bucket)) {
        if (this.ledger.isFree(key)) asked.set(key, at);
      } else if (this.epochOf(at.bucket) === undefined) this.toContinue.delete(key); // loaded anew with its next lease
    }
    return [...asked.values()];
  }

  /** @internal */ epochOf(bucket: number): string | undefined {
    const { leases, id } = this.relay;
    return leases.lease(id, bucket)?.epoch;
  }

  /** @internal */ async take(
    due: readonly DueRow[],
    keys: readonly KeyInBucket[],
    leases: readonly Lease[],
    perKey: number,
  ): Promise<number> {
    const unwritten = new Set(this.ledger.unwritten.pending.keys());
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
      for (const { bucket, key } of result.notAsked) this.continueKey(bucket, key);
      this.events.accept(result.messages);
      return result.messages.length;
    } catch (error) {
      for (const at of keys) this.toContinue.set(at.key, at);
      throw error;
    } finally {
      this.keys.taken();
      this.parkedMeanwhile = undefined;
    }
  }

  /** @internal */ async mark(
    due: readonly DueRow[],
    keys: readonly KeyInBucket[],
    leases: readonly Lease[],
    perKey: number,
  ): Promise<TakeResult & { readonly notAsked: readonly KeyInBucket[] }> {
    const { store, id, leases: owned } = this.relay;
    const epochs = new Map(leases.map(({ bucket, epoch }) => [bucket, epoch]));
    try {
      const result = await store.take({ owner: owned.owner, transport: id, leases, due, keys, perKey });
      this.dueRows.passOver(result.passedOver);
      // Those of a lease that was lost meanwhile stay marked under its epoch: whoever has the bucket now takes them again.
      // And of its keys the next owner may have parked something since; under our next lease they are loaded anew.
      const isOurs = ({ bucket }: { readonly bucket: number }): boolean =>
        this.epochOf(bucket) === epochs.get(bucket) && this.events.isOpen(bucket);
      for (const message of result.messages) {
        if (isOurs(message)) this.marked.add(message.bucket);
        else this.stranded.set(message.bucket, epochs.get(message.bucket) as string);
      }
      const notAsked = keys.filter((at) => !isOurs(at));
      return { ...result, messages: result.messages.filter(isOurs), clear: result.clear.filter(isOurs), notAsked };
    } catch (error) {
      const buckets = new Set([...due, ...keys].map(({ bucket }) => bucket));
      for (const bucket of buckets) this.stranded.set(bucket, epochs.get(bucket) as string);
      this.events.uncertain([...buckets]);
      throw error;
    }
  }

  /** Rows that were taken and cannot be vouched for are given back. @internal */
  async flush(taken: readonly OutboxMessage[]): Promise<void> {
    try {
      await this.relay.store.flush();
    } catch (error) {
      this.events.giveBack(taken);
      throw error;
    }
  }

  /** More keys are blocked than fit into memory: the store is asked about those at hand, and the others of them stay known. */
  async ask(messages: readonly OutboxMessage[]): Promise<void> {
    this.keys.keep(new Set(messages.flatMap(({ key }) => key ?? [])));
    const keys = messages.flatMap(({ bucket, key }) =>
      key === null || this.keys.has(bucket, key) ? [] : [{ bucket, key }],
    );
    for (const { bucket, key } of await this.relay.store.blockedAmong(this.relay.id, keys))
      this.keys.addBeyond(bucket, key);
    // The store does not know yet what is not written.
    for (const { bucket, key } of keys)
      if (this.ledger.unwritten.pending.has(key) || this.events.isAside(bucket, key)) this.keys.addBeyond(bucket, key);
  }

  /**
   * Past the bound of `keys` they are loaded in turn: a part at each pass until all were, and again now and then. Once all
   * fit, and what is not written is in `keys` for itself, nobody has to be asked any more.
   * @internal
   */
  async reload(buckets: readonly number[]): Promise<void> {
    const { keys, relay } = this;
    if (!keys.overflow || this.toContinue.size >= keys.limit) return;
    if (this.loadedUpTo.size === 0 && relay.clock.monotonic() - this.loadedAt < RELOAD_EVERY) return;
    const isWhole = this.loadedUpTo.size === 0 && relay.leases.of(relay.id).size === buckets.length;
    const { dropped } = keys;
    const isWritten = this.ledger.unwritten.pending.size === 0;
    await this.load(buckets);
    if (isWhole && isWritten && this.loadedUpTo.size === 0 && keys.dropped === dropped) keys.overflow = false;
  }
}

/** Blocked rows of one key that are brought back at once. */
const PER_KEY = 100;
const RELOAD_EVERY = 30_000;
