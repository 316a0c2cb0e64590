import type { Roles } from '../../store/outbox-store.js';
import type { Ledger } from '../ledger.js';
import { BlockedKeys } from './blocked-keys.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { Lease } from '../../store/lease-store.js';
import { inOneOrder, type DueRow, type KeyInBucket, type TakeResult } from '../../store/parked-store.js';
import type { Decided, Settler } from '../settle/settler.js';
import { closes } from '../settle/unwritten.js';
import { DueRows } from './due-rows.js';
import type { GlobalOrderGate } from './global-order-gate.js';
import type { TransportRelayDependencies } from '../transport-parts.js';

/** What was marked as being sent by us. */
export interface Taken extends Pick<TakeResult, 'messages' | 'durable' | 'clear'> {
  /** In how many milliseconds the next row falls due at the earliest. */
  readonly nextIn: number | null;
  /** Keys that were asked for. */
  readonly keys: readonly KeyInBucket[];
  /** Of a lease that was lost meanwhile, or is new. */
  readonly notAsked: readonly KeyInBucket[];
  /** Rows were marked, or keys were free, and this session read just before: once another one reads, that is void. */
  readonly markedBeside: number | undefined;
  /** Keys with something that was not written when we asked. */
  readonly unwritten: ReadonlySet<string>;
}

/** Nothing may be taken now. */
export interface NoneFound {
  readonly messages: undefined;
  readonly nextIn: number | null;
}

/**
 * Brings parked messages back: those whose time has come, and those whose key can go on. Also knows which keys are
 * blocked. One pass is `take`, and `took` or `gaveBack`.
 *
 * A key stays in `keys` from the moment when something of it is, or may be, parked until the store says that no blocking
 * row of it is left, and nothing of it was parked while we asked. In a global order everything is of the key `''`.
 */
export class ParkedReader {
  /** Keys whose first blocking row was settled, or may have been. */
  readonly toContinue = new Map<string, KeyInBucket>();
  /** Keys of which something was parked while a take is under way; `undefined`: none is. */
  parkedMeanwhile: Set<string> | undefined;
  /** Keys of due rows that are being taken. Until the store has marked these, only this here knows that they block their keys. */
  private readonly beingTaken = new Set<string>();
  /** From the question about what was read until it is accepted: what may not go, as the store said, and as became true since. */
  private blocked: Set<string> | undefined;
  loadedAt = 0;
  /** With more blocked keys than fit into memory: of each bucket the last one that was loaded. Empty: all were. */
  readonly loadedUpTo = new Map<number, string>();
  /** Buckets of which rows were marked as being sent, under the present lease. */
  readonly withMarks = new Set<number>();
  /** Buckets of which a key was free that had been blocked, under the present lease. */
  readonly freed = new Set<number>();
  /**
   * Bucket → epoch under which rows of it were marked, or may have been, that nobody sends now. The next epoch takes them again.
   * A failover that lost the lease may give out the same number once more.
   */
  readonly staleMarks = new Map<number, string>();
  private readonly dueRows: DueRows;
  readonly keys: BlockedKeys;

  constructor(
    readonly deps: TransportRelayDependencies<Roles<'ready' | 'parked'>>,
    readonly ledger: Ledger,
    /** Buckets that are held, and whose blocked keys are known. */
    readonly open: Pick<ReadonlySet<number>, 'has'>,
    /** Says whether a message of a key cannot be parked: the store does not see it. */
    readonly writes: Pick<Settler, 'isQuarantined'>,
    readonly hold: Pick<GlobalOrderGate, 'hold'>,
    limit?: number,
  ) {
    this.dueRows = new DueRows(deps, (row) => this.mayTake(row), this.continueKey.bind(this));
    this.keys = new BlockedKeys(deps, (key) => ledger.isFree(key), limit);
  }

  private get isGlobal(): boolean {
    return this.deps.options.ordering === 'global';
  }

  /** Must have run for a bucket before its ready rows are read. */
  async load(buckets: readonly number[]): Promise<void> {
    const { store, id } = this.deps;
    this.loadedAt = this.deps.clock.monotonic();
    if (this.isGlobal) {
      const held = await store.parked.blockedAmong(id, inOneOrder(buckets));
      for (const { bucket, key } of held) this.found(bucket, key, true);
      return;
    }
    const epochs = new Map(buckets.map((bucket) => [bucket, this.epochOf(bucket)]));
    const rows = await store.parked.blockingKeys(id, buckets, this.keys.limit, this.loadedUpTo);
    const more = rows.length >= this.keys.limit;
    // Under the next lease all is loaded anew: how far this load came says nothing of that.
    const isStill = (bucket: number): boolean => this.epochOf(bucket) === epochs.get(bucket);
    if (more) this.keys.overflow = true;
    else for (const bucket of buckets.filter(isStill)) this.loadedUpTo.delete(bucket);
    for (const { bucket, key, ready } of rows.filter((row) => isStill(row.bucket))) {
      this.found(bucket, key, ready);
      if (more) this.loadedUpTo.set(bucket, key);
    }
  }

  found(bucket: number, key: string, ready: boolean): void {
    this.keys.add(bucket, key);
    if (ready) this.toContinue.set(key, { bucket, key });
  }

  forget(bucket: number): void {
    this.keys.forget(bucket);
    this.withMarks.delete(bucket);
    this.freed.delete(bucket);
    this.loadedUpTo.delete(bucket);
    this.dueRows.forget(bucket);
    for (const [key, at] of this.toContinue) if (at.bucket === bucket) this.toContinue.delete(key);
  }

  /** These are read from now on. Where the epoch is one of rows that nobody takes again, another one is asked for. */
  opened(buckets: readonly number[]): void {
    const again = buckets.filter((bucket) => this.staleMarks.get(bucket) === this.epochOf(bucket));
    for (const bucket of buckets) this.staleMarks.delete(bucket);
    if (again.length > 0) this.deps.leases.changeEpoch(this.deps.id, again);
  }

  /**
   * Another server may answer, which has our lease, and of what was committed since then only a part.
   * - It has a mark of ours and not what followed it: nobody takes that row again under this epoch.
   * - It has what blocked a key, and not that an operator, the cleaner or a late settle removed it: later messages would pass it.
   *
   * All else that it lacks is known. No former owner parks once the lease is ours: a park locks the lease. A key that it need not
   * block any more is asked for in turn. What was removed between our acquire and the load of the keys is not known; it was
   * published by its former owner, or in these milliseconds an operator took it away.
   */
  distrust(): void {
    const buckets = new Set([...this.withMarks, ...this.freed]);
    if (buckets.size > 0) this.deps.leases.changeEpoch(this.deps.id, [...buckets]);
  }

  /** A transition is on its way. */
  parking({ message, blocks }: Decided): void {
    const key = this.ledger.queues.gateOf(message);
    if (key === null || !blocks) return;
    this.block(message.bucket, key);
    this.parkedMeanwhile?.add(key);
  }

  /** It was written, or is void. */
  parked(decided: Decided): void {
    const { message, blocks } = decided;
    const key = this.ledger.queues.gateOf(message);
    if (key !== null && blocks && !closes(decided)) this.keys.parkedBehind(message.bucket, key);
  }

  /** The row in front of this key's blocked ones is gone. */
  continueKey(bucket: number, key: string): void {
    this.toContinue.set(key, { bucket, key });
  }

  /** Marks what may go now as being sent by us. It is told `took` or `gaveBack` what becomes of it. */
  async take(buckets: readonly number[], leases: readonly Lease[], limit: number): Promise<Taken | NoneFound> {
    await this.reload(buckets);
    const held = new Set(buckets);
    const isOrdered = this.deps.options.ordering !== 'none';
    // Whatever is taken here is a key to ask for later: without a share of the pass these would pile up.
    const share = Math.min(this.toContinue.size, limit >> 1);
    const { free, some, more, nextIn } = await this.dueRows.find(buckets, limit - share);
    const due = free.map((row) => (isOrdered ? row : { ...row, key: null }));
    const keys = this.keysToAsk(Math.max(1, limit - due.length), held);
    // Nothing is read past them: what is in memory goes first, or under load their turn would never come.
    if (this.isGlobal && (some || keys.length > 0)) this.hold.hold();
    if (due.length === 0 && keys.length === 0) return { messages: undefined, nextIn };
    const perKey = Math.max(1, Math.min(PER_KEY, Math.floor(limit / (due.length + keys.length))));
    const { store, id, leases: owned } = this.deps;
    const { session } = store.ready;
    const unwritten = this.beginTake(keys);
    try {
      const result = await store.parked.take({ owner: owned.owner, transport: id, leases, due, keys, perKey });
      return { ...this.marked(result, leases, keys, session), keys, unwritten, nextIn: more ? 0 : nextIn };
    } catch (error) {
      this.maybeMarked([...due, ...keys], leases);
      this.notTaken(keys);
      throw error;
    }
  }

  /** While a key has a message on its way, its parked rows wait; the key is marked, so that they come next. */
  private mayTake({ parkedId, bucket, key }: DueRow): boolean {
    if (this.ledger.unwritten.rows.has(parkedId)) return false;
    if (this.deps.options.ordering === 'none' || key === null) return true;
    this.block(bucket, key);
    if (!this.isGlobal) this.ledger.queues.bar(key); // in a global order the hold does it
    if (!this.ledger.isFree(key)) return false;
    this.beingTaken.add(key);
    return true;
  }

  /** Something of it is, or may soon be, parked. */
  private block(bucket: number, key: string): void {
    this.keys.add(bucket, key);
    if (this.keys.overflow) this.blocked?.add(key);
  }

  /** Of the buckets that are held keys that can go on, and now and then some more in turn. */
  private keysToAsk(limit: number, held: ReadonlySet<number>): KeyInBucket[] {
    const { inTurn, behind } = this.keys.toAsk(limit, held);
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

  private epochOf(bucket: number): string | undefined {
    const { leases, id } = this.deps;
    return leases.lease(id, bucket)?.epoch;
  }

  /** @returns keys with something that is not written */
  private beginTake(keys: readonly KeyInBucket[]): ReadonlySet<string> {
    this.parkedMeanwhile = new Set();
    for (const { key } of keys) this.toContinue.delete(key);
    return new Set(this.ledger.unwritten.pending.keys());
  }

  /** These go out now: they wait in the queues before anybody else runs. */
  took({ clear, notAsked, unwritten }: Taken): void {
    for (const { bucket, key } of clear) {
      if (this.writes.isQuarantined(bucket, key)) continue; // whoever writes it says so
      if (unwritten.has(key) || this.parkedMeanwhile?.has(key) === true) this.continueKey(bucket, key);
      else this.free(bucket, key);
    }
    for (const { bucket, key } of notAsked) this.continueKey(bucket, key);
    this.taken();
  }

  private free(bucket: number, key: string): void {
    this.keys.delete(bucket, key);
    this.freed.add(bucket);
  }

  /** They were taken and cannot be vouched for. */
  gaveBack({ keys }: Taken): void {
    this.notTaken(keys);
  }

  private notTaken(keys: readonly KeyInBucket[]): void {
    for (const at of keys) this.toContinue.set(at.key, at);
    this.taken();
  }

  private taken(): void {
    this.beingTaken.clear();
    this.parkedMeanwhile = undefined;
  }

  /**
   * Those of a lease that was lost meanwhile stay marked under its epoch: whoever has the bucket now takes them again. And of its
   * keys the next owner may have parked something since; under our next lease they are loaded anew.
   */
  private marked(
    { messages, clear, durable, passedOver }: TakeResult,
    leases: readonly Lease[],
    keys: readonly KeyInBucket[],
    session: number,
  ): Pick<Taken, 'messages' | 'durable' | 'clear' | 'notAsked' | 'markedBeside'> {
    const epochs = epochsOf(leases);
    this.dueRows.passOver(passedOver);
    const isOurs = ({ bucket }: { readonly bucket: number }): boolean =>
      this.epochOf(bucket) === epochs.get(bucket) && this.open.has(bucket);
    for (const message of messages) {
      if (isOurs(message)) this.withMarks.add(message.bucket);
      else this.staleMarks.set(message.bucket, epochs.get(message.bucket) as string);
    }
    const notAsked = keys.filter((at) => !isOurs(at));
    const markedBeside = messages.length + clear.length > 0 ? session : undefined;
    return { messages: messages.filter(isOurs), durable, clear: clear.filter(isOurs), notAsked, markedBeside };
  }

  /** Rows of these may have been marked without our hearing which: only another epoch takes them again. */
  private maybeMarked(rows: readonly { readonly bucket: number }[], leases: readonly Lease[]): void {
    const epochs = epochsOf(leases);
    const buckets = new Set(rows.map(({ bucket }) => bucket));
    for (const bucket of buckets) this.staleMarks.set(bucket, epochs.get(bucket) as string);
    this.deps.leases.changeEpoch(this.deps.id, [...buckets]);
  }

  /** More keys are blocked than fit into memory: before messages are accepted, the store is asked about theirs. */
  async ask(messages: readonly OutboxMessage[]): Promise<void> {
    const { keys, deps, ledger } = this;
    const blocked = (this.blocked = new Set(this.beingTaken));
    const unknown = messages.flatMap(({ bucket, key }) =>
      key === null || keys.has(bucket, key) ? [] : [{ bucket, key }],
    );
    // What is on its way to the store is not in its answer, even if it is written before the answer is here.
    for (const { bucket, key } of unknown)
      if (ledger.unwritten.pending.has(key) || this.writes.isQuarantined(bucket, key)) blocked.add(key);
    for (const { key } of await deps.store.parked.blockedAmong(deps.id, unknown)) blocked.add(key);
  }

  /** Whether a ready message of this key has to be parked. */
  isBlocked(bucket: number, key: string): boolean {
    return this.keys.has(bucket, key) || this.blocked?.has(key) === true;
  }

  /** What was read is accepted, or given back. */
  accepted(): void {
    this.blocked = undefined;
  }

  /**
   * Past the bound of `keys` they are loaded in turn: a part at each pass until all were, and again now and then. Once all
   * fit, and what is not written is in `keys` for itself, nobody has to be asked any more.
   */
  private async reload(buckets: readonly number[]): Promise<void> {
    const { keys, deps } = this;
    if (!keys.overflow || this.toContinue.size >= keys.limit) return;
    if (this.loadedUpTo.size === 0 && deps.clock.monotonic() - this.loadedAt < RELOAD_EVERY) return;
    const isWhole = this.loadedUpTo.size === 0 && deps.leases.of(deps.id).size === buckets.length;
    const { dropped } = keys;
    const isWritten = this.ledger.unwritten.pending.size === 0;
    await this.load(buckets);
    if (isWhole && isWritten && this.loadedUpTo.size === 0 && keys.dropped === dropped) keys.overflow = false;
  }
}

const epochsOf = (leases: readonly Lease[]): ReadonlyMap<number, string> =>
  new Map(leases.map(({ bucket, epoch }) => [bucket, epoch]));

/** Blocked rows of one key that are brought back at once. */
const PER_KEY = 100;
const RELOAD_EVERY = 30_000;
