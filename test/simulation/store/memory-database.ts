import type { OutboxMessage } from '../../../lib/index.js';
import type { AuditRow } from '../../../lib/store/operator-store.js';
import { compareSeq } from '../../../lib/outbox-message.js';
import { OutboxConfigurationError } from '../../../lib/outbox.errors.js';
import type { Lease } from '../../../lib/store/lease-store.js';
import type { SchemaSettings } from '../../../lib/store/outbox-store.js';
import type { Pause } from '../../../lib/store/pauses/pause-store.js';
import type { NumberSource, Snapshot } from '../../../lib/store/ready-store.js';
import type { DeadRows } from './memory-dead.js';
import { placeName } from './memory-place.js';
import {
  hasLargePayload,
  isVisible,
  toMessage,
  type ArchiveRow,
  type DedupRow,
  type InstanceRow,
  type LeaseRow,
  type ParkedRow,
  type ReadyRow,
} from './memory-rows.js';
import { MemoryTransaction } from './memory-transaction.js';
import type { MemoryWatch } from './memory-watch.js';

export interface MemoryDatabaseOptions {
  /** Milliseconds since the epoch: the only time there is. */
  readonly now: () => number;
  /** Tables that are there from the start; without it somebody has to `create` them. */
  readonly settings?: SchemaSettings;
  /** Whose payload a read leaves in the table. Default: those that are large. */
  readonly isLarge?: (row: ReadyRow) => boolean;
}

/**
 * The tables of an outbox, as PostgreSQL keeps them: transactions take their id with their first row, messages their
 * number with their insert, both before the commit; until then nobody else sees them. Nothing runs by itself: each
 * statement is one call and atomic.
 */
export class MemoryDatabase {
  /** `transport bucket` → `seq` → row, in the order of the numbers. No bucket is empty. */
  readonly ready = new Map<string, Map<string, ReadyRow>>();
  readonly parked = new Map<string, ParkedRow>();
  readonly archive = new Set<ArchiveRow>();
  readonly audits: AuditRow[] = [];
  readonly dedup = new Map<string, DedupRow>();
  /** `transport bucket` → row. */
  readonly leases = new Map<string, LeaseRow>();
  readonly instances = new Map<string, InstanceRow>();
  readonly transports = new Map<string, number>();
  pauses: readonly Pause[] = [];
  /** What the tables were made with; `undefined` until somebody makes them. */
  meta: SchemaSettings | undefined;
  readonly now: () => number;
  /** Those that have an id. */
  readonly open = new Set<MemoryTransaction>();
  /** Of commits that did not wait for the disk, those that a crash may still take back. */
  undurable: MemoryTransaction[] = [];
  commits = 0;
  /** The last commit that is on disk, with all before it. */
  flushed = 0;
  watch: MemoryWatch | undefined;
  nextTransactionId = 100n;
  highestFinished = 99n;
  nextSeq = 1n;
  nextParkedId = 1n;
  /** Of what holds the rows of the ready table. */
  table = 1;
  /** The lowest of what the relays had seen when numbers went back: a relay that sees a higher one need not notice. */
  backFrom = 0n;
  /** @internal The last number that each relay was told: by its answer before the last one, which may be lost, and when. */
  readonly told = new Map<object, { before: bigint; last: bigint; at: number }>();
  /** They reached it again before a relay need have looked: it may not see that they went back, and what is below its position waits for a full scan. */
  caughtUp = false;
  /** When numbers went back last. */
  wentBackAt = -Infinity;
  /** Likewise, when it said this of them. */
  readonly wentBackWhen = new WeakMap<NumberSource, number>();
  deaths = 0;
  /** From one number to the next. */
  stride = 1n;
  /** What is kept of rows that are gone, while somebody holds a snapshot. */
  dead: DeadRows | undefined;

  readonly isLarge: (row: ReadyRow) => boolean;

  constructor({ now, settings, isLarge = hasLargePayload }: MemoryDatabaseOptions) {
    this.now = now;
    this.isLarge = isLarge;
    this.meta = settings;
  }

  get settings(): SchemaSettings {
    if (this.meta === undefined) throw new OutboxConfigurationError('SCHEMA_MISSING', 'Nobody made the tables.');
    return this.meta;
  }

  nextDeath(): number {
    this.deaths += 1;
    return this.deaths;
  }

  message(row: ReadyRow | ParkedRow): OutboxMessage {
    return toMessage(row, row.payload !== null && this.isLarge(row));
  }

  /** @param asynchronous its rows are visible before they are durable (`synchronous_commit = off`) */
  begin({ asynchronous = false } = {}): MemoryTransaction {
    return new MemoryTransaction(this, asynchronous);
  }

  /** A statement of the relay that writes: a transaction of its own, with an id of its own. */
  write<T>(work: (transaction: MemoryTransaction) => T, asynchronous = false): T {
    const transaction = new MemoryTransaction(this, asynchronous);
    transaction.takeId();
    try {
      const result = work(transaction);
      transaction.end('committed');
      return result;
    } finally {
      if (transaction.state === 'open') transaction.end('rolledBack'); // the work failed
    }
  }

  /** `xmax` is one past the highest id that is finished, whatever is open above it. */
  snapshot(): Snapshot {
    const xmax = this.highestFinished + 1n;
    const ids = [...this.open].map(({ id }) => id as bigint).filter((id) => id < xmax);
    const open = ids.sort((a, b) => (a < b ? -1 : 1)).map(String);
    return { xmin: open[0] ?? String(xmax), xmax: String(xmax), open };
  }

  /** The server dies and is there again: what was open never was, and commits that were not on disk are gone. */
  crash(): void {
    for (const transaction of [...this.open].reverse()) transaction.end('rolledBack');
    const lost = this.undurable.filter((transaction) => !transaction.isDurable);
    for (const transaction of lost.reverse()) transaction.revert();
    this.undurable = [];
    this.dead = undefined; // who held a snapshot is gone
  }

  /** @internal */ committed(transaction: MemoryTransaction): void {
    if (transaction.id === undefined) return;
    transaction.commitNumber = this.commits += 1;
    if (transaction.asynchronous) {
      transaction.durableAt = this.now() + transaction.lag;
      this.undurable.push(transaction);
    } else {
      this.flushed = this.commits;
      if (this.undurable.length > 0) this.undurable = [];
      transaction.undo.length = 0;
    }
  }

  /** @internal */ finish(transaction: MemoryTransaction): void {
    this.open.delete(transaction);
    if (transaction.id !== undefined && transaction.id > this.highestFinished) this.highestFinished = transaction.id;
  }

  takeSeq(): string {
    while (this.usedSeqs.delete(this.nextSeq)) this.nextSeq += 1n;
    this.caughtUp ||= this.nextSeq >= this.backFrom && this.now() - this.wentBackAt < UNSEEN;
    const seq = this.nextSeq;
    this.nextSeq += this.stride;
    return String(seq);
  }
  /** @internal Numbers that are taken, where they went back: a writer that is given one of them fails, and tries again. */
  readonly usedSeqs = new Set<bigint>();

  /** @internal A row holds its number, whatever the sequence gives out next. */
  noteUsed(): void {
    this.usedSeqs.clear();
    const reserved = [...this.open].flatMap((transaction) => transaction.reserved);
    const used = [...this.ready.values()].flatMap((rows) => [...rows.keys()]).concat(reserved);
    for (const row of this.parked.values()) used.push(row.seq);
    for (const seq of used) this.usedSeqs.add(BigInt(seq));
  }

  /** As `setval` does; InnoDB gives out none that is not above all rows. */
  setNumbersBack(aboveRows: boolean): void {
    this.wentBackAt = this.now();
    this.backFrom = this.nextSeq - 1n;
    for (const { before, at } of this.told.values())
      if (this.now() - at < UNSEEN && before < this.backFrom) this.backFrom = before;
    this.noteUsed();
    this.nextSeq = 1n;
    if (aboveRows) for (const seq of this.usedSeqs) if (seq >= this.nextSeq) this.nextSeq = seq + 1n;
  }

  /** As if this clock had been ahead by so much when the owner said its last word. */
  putIntoFuture(owner: string, ms: number): void {
    for (const row of this.leases.values()) if (row.owner === owner) row.expiresAt += ms;
    const row = this.instances.get(owner);
    if (row !== undefined) this.instances.set(owner, { ...row, expiresAt: row.expiresAt + ms });
  }

  /** As TRUNCATE does. @returns what was there */
  empty(): ReadyRow[] {
    const gone = [...this.ready.values()].flatMap((rows) => [...rows.values()]).filter(isVisible);
    for (const row of gone) this.removeReady(row);
    this.dead?.clear();
    this.table += 1;
    return gone;
  }

  /** @param relay who asks, and compares with what it was told before */
  numberSource(relay?: object): NumberSource {
    const last = this.nextSeq - 1n;
    if (relay !== undefined) this.told.set(relay, { before: this.told.get(relay)?.last ?? last, last, at: this.now() });
    const source = { server: 'the only one', table: String(this.table), last: String(last) };
    this.wentBackWhen.set(source, this.wentBackAt);
    return source;
  }

  /** Committed rows of a bucket in the order of their numbers. */
  readyRows(transport: number, bucket: number): ReadyRow[] {
    return [...(this.ready.get(placeName(transport, bucket))?.values() ?? [])].filter(isVisible);
  }
  readyRow(transport: number, bucket: number, seq: string): ReadyRow | undefined {
    const row = this.ready.get(placeName(transport, bucket))?.get(seq);
    return row !== undefined && isVisible(row) ? row : undefined;
  }
  /** @internal */ addReady(row: ReadyRow): void {
    const name = placeName(row.transport, row.bucket);
    const rows = this.ready.get(name) ?? new Map<string, ReadyRow>();
    this.ready.set(name, rows.set(row.seq, row));
    const last = this.lastSeq.get(name) ?? '0';
    if (compareSeq(row.seq, last) > 0) this.lastSeq.set(name, row.seq);
    else this.ready.set(name, new Map([...rows].sort(([a], [b]) => compareSeq(a, b))));
  }
  /** @internal */ readonly lastSeq = new Map<string, string>();
  /** @internal */ removeReady(row: ReadyRow): void {
    const { transport, bucket, seq } = row;
    if (this.dead !== undefined && isVisible(row)) this.dead.add(row);
    const name = placeName(transport, bucket);
    const rows = this.ready.get(name);
    rows?.delete(seq);
    if (rows?.size === 0) this.ready.delete(name);
  }

  /** Committed rows in the order of their ids. */
  parkedRows(transport?: number): ParkedRow[] {
    return [...this.parked.values()].filter(
      (row) => isVisible(row) && (transport === undefined || row.transport === transport),
    );
  }
  /** @internal */ addParked(row: Omit<ParkedRow, 'parkedId'>): ParkedRow {
    const added = { ...row, parkedId: String(this.nextParkedId++) };
    this.parked.set(added.parkedId, added);
    return added;
  }

  lease(transport: number, bucket: number): LeaseRow | undefined {
    return this.leases.get(placeName(transport, bucket));
  }
  /** Of these leases those that are still this owner's in this epoch. */
  held(owner: string, leases: readonly Lease[]): LeaseRow[] {
    return leases.flatMap(({ transport, bucket, epoch }) => {
      const row = this.lease(transport, bucket);
      return row !== undefined && row.owner === owner && String(row.epoch) === epoch ? [row] : [];
    });
  }
}

/** Milliseconds that a relay which is frozen may not look for. */
const UNSEEN = 20_000;
