import type { OutboxStore } from '../../../lib/index.js';
import type { NewMessage } from '../../../lib/outbox-message.js';
import type { Cleaning, CleanReport, StatsRequest } from '../../../lib/store/admin-store.js';
import type { SqlExecutor } from '../../../lib/store/executor.js';
import type { Beat, LeaseStore } from '../../../lib/store/lease-store.js';
import type { InspectStore } from '../../../lib/store/inspect-store.js';
import type { OperatorStore } from '../../../lib/store/operator-store.js';
import { LockTurns } from '../../../lib/store/lock-turns.js';
import type { InsertReport, SchemaSettings } from '../../../lib/store/outbox-store.js';
import type { ParkedStore, RowLockStore } from '../../../lib/store/parked-store.js';
import type { FetchResult, ReadyStore, WriteReport } from '../../../lib/store/ready-store.js';
import * as admin from './memory-admin.js';
import { MemoryOperators } from './memory-operators.js';
import * as clean from './memory-clean.js';
import type { MemoryDatabase } from './memory-database.js';
import { MemoryInsert } from './memory-insert.js';
import * as leases from './memory-leases.js';
import * as parked from './memory-parked.js';
import * as ready from './memory-ready.js';
import { MemoryLockedRows } from './memory-row-locks.js';
import { checkSettings, create, registerTransports } from './memory-setup.js';
import { take } from './memory-take.js';
import { Blocked, MemoryTransaction } from './memory-transaction.js';
import { AT_ONCE, type MemoryStoreOptions, type Wire } from './memory-wire.js';

/**
 * The outbox as one process sees it, all roles in one object. Operations carry the names of the methods; what takes two
 * statements has two.
 */
export class MemoryStore implements OutboxStore {
  readonly writer = this;
  readonly leases = this;
  readonly ready = this;
  readonly parked = this;
  readonly rowLocks = this;
  readonly admin = this;
  readonly cleaner = this;
  readonly setup = this;
  readonly operators = new MemoryOperators(this) as unknown as OperatorStore;
  readonly inspect = this.operators as unknown as InspectStore;
  session = 0;
  readonly bucketsPerRead?: number;
  readonly probe?: NonNullable<ReadyStore['probe']>;
  /** When its numbers were asked for. */
  private askedAt = -Infinity;
  private readonly reach: number;
  /** @internal */ readonly wire: Wire;
  /** @internal */ readonly sweepPage: number;
  /** @internal */ readonly locked = new Set<MemoryLockedRows>();
  /** @internal */ lockTurns: LockTurns | undefined;
  /** @internal */ readonly provesNothing: boolean;

  constructor(
    readonly database: MemoryDatabase,
    { wire = AT_ONCE, sweepPage = 10_000, ...proof }: MemoryStoreOptions = {},
  ) {
    this.wire = wire;
    this.sweepPage = sweepPage;
    this.provesNothing = proof.floor === 'probe';
    this.reach = proof.looks ?? Infinity;
    if (this.provesNothing) Object.assign(this, ready.probes(this));
  }

  /** The connections were lost: what they had locked is free, and readers start over. */
  reconnect(): void {
    this.session += 1;
    this.database.watch?.reconnected();
    for (const rows of this.locked) rows.rollback();
  }
  async close(): Promise<void> {
    for (const rows of this.locked) rows.rollback();
  }

  async insert(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<InsertReport> {
    if (!(tx instanceof MemoryTransaction && tx.database === this.database)) {
      throw new TypeError('The transaction is not one of this database.');
    }
    const insert = new MemoryInsert(tx, messages);
    return this.unblocked(() => this.call('insert', () => insert.run()));
  }

  acquire: LeaseStore['acquire'] = (request) =>
    this.writeFound('acquire', () => leases.acquire(this.database, request));
  renew: LeaseStore['renew'] = (...args) => this.writeFound('renew', () => leases.renew(this.database, ...args));
  giveBack: LeaseStore['giveBack'] = (...args) => this.write('giveBack', () => leases.giveBack(this.database, ...args));
  noteTrial: LeaseStore['noteTrial'] = (...args) =>
    this.write('noteTrial', () => leases.noteTrial(this.database, ...args));
  beat: LeaseStore['beat'] = (...args) =>
    this.write('beat', () => leases.beat(this.database, ...args)).then((beat) => this.heard(beat));
  living: LeaseStore['living'] = (also) =>
    this.call('living', () => leases.living(this.database, also)).then((beat) => this.heard(beat));
  /** Of whoever has the store, with each answer that arrives. */
  heard = (beat: Beat): Beat => beat;
  heldLeases = () => this.call('heldLeases', () => leases.heldLeases(this.database));
  endLeases: LeaseStore['endLeases'] = (...args) =>
    this.writeFound('endLeases', () => leases.endLeases(this.database, ...args));
  expire = () => this.writeFound('expire', () => leases.expire(this.database));

  fetch: ReadyStore['fetch'] = (request) =>
    this.found('fetch', () => ready.fetchReady(this.database, request, this, this.reach));
  sweep: ReadyStore['sweep'] = (transport, ranges, known = 0) =>
    this.call('sweep', () => ready.sweep(this.database, transport, ranges, this.sweepPage + known));
  readPlaces: ReadyStore['readPlaces'] = (...args) =>
    this.found('readPlaces', () => ready.readPlaces(this.database, ...args));
  readPayloads: ReadyStore['readPayloads'] = (...args) =>
    this.call('readPayloads', () => ready.readPayloads(this.database, ...args));
  /** Where reads prove nothing, numbers are a question of their own, some times a second. @internal */
  async found(operation: string, work: () => ready.Read): Promise<FetchResult> {
    const read = await this.call(operation, () => ({ ...work(), session: this.session }));
    if (!this.provesNothing) return read;
    const isDue = this.database.now() - this.askedAt >= ASK_EVERY;
    if (isDue) this.askedAt = this.database.now();
    const source = isDue ? await this.call('numberSource', () => this.database.numberSource(this)) : undefined;
    return { ...read, snapshot: undefined, fence: undefined, source };
  }
  async flush(session?: number): Promise<void> {
    await this.write('flush', () => undefined);
    if (session !== undefined && session !== this.session) throw new Error('The session that read is over.');
  }

  /** A second statement, as in SQL, for those that are not ready: between the two anybody may do anything. */
  settle: ReadyStore['settle'] = async (transport, messages, onPublished) => {
    const unparked = messages.filter(({ parkedId }) => parkedId === null);
    const first: WriteReport =
      unparked.length === 0
        ? { fence: undefined, affected: 0 }
        : await this.report(
            'settle',
            (transaction) => ready.settleReady(transaction, transport, unparked, onPublished),
            onPublished === 'delete',
          );
    if (first.affected === messages.length) {
      this.database.watch?.heard(messages);
      return first;
    }
    const all = first.affected < unparked.length;
    const rest = all ? messages : messages.filter(({ parkedId }) => parkedId !== null);
    const second = await this.report('settleParked', (transaction) =>
      parked.settleParked(transaction, transport, rest, onPublished),
    );
    this.database.watch?.heard(messages);
    return { fence: first.fence ?? second.fence, affected: first.affected + second.affected };
  };
  park: ReadyStore['park'] = async (owner, held, entries) => {
    if (held.length === 0) return { fence: undefined, affected: 0 };
    return this.report('park', (transaction) => {
      let moved = 0;
      for (const transport of new Set(held.map((lease) => lease.transport))) {
        const buckets = ready.heldBuckets(this.database, owner, held, transport);
        moved += ready.park(transaction, transport, entries, (bucket) => buckets.has(bucket));
      }
      return moved;
    });
  };

  due: ParkedStore['due'] = (...args) => this.call('due', () => parked.due(this.database, ...args));
  take: ParkedStore['take'] = (request) => this.write('take', () => take(this.database, request));
  repark: ParkedStore['repark'] = (owner, held, entries) =>
    this.report('repark', () => parked.repark(this.database, entries, parked.isSentBy(this.database, owner, held)));
  blockingKeys: ParkedStore['blockingKeys'] = (...args) =>
    this.call('blockingKeys', () => parked.blockingKeys(this.database, ...args));
  hasten: ParkedStore['hasten'] = (...args) => this.write('hasten', () => parked.hasten(this.database, ...args));
  blockedAmong: ParkedStore['blockedAmong'] = (...args) =>
    this.call('blockedAmong', () => parked.blockedAmong(this.database, ...args));
  unannouncedDead: ParkedStore['unannouncedDead'] = (...args) =>
    this.call('unannouncedDead', () => parked.unannouncedDead(this.database, ...args));
  markAnnounced: ParkedStore['markAnnounced'] = (deaths) =>
    this.write('markAnnounced', () => parked.markAnnounced(this.database, deaths));

  /** Two operations, `lockRows` and `commitRows`; a failure of either is a lost connection, and its locks are freed. */
  withLockedRows: RowLockStore['withLockedRows'] = async (request, work) => {
    const rows = new MemoryLockedRows(this.database, request);
    this.locked.add(rows);
    const turn = (this.lockTurns ??= new LockTurns(this.database.settings.buckets)).next(request.transport);
    try {
      const { messages, durable } = await this.call('lockRows', () => rows.lock(turn));
      if (messages.length === 0) return { locked: 0, refused: [] };
      const outcome = await work(messages, durable, rows.session(this.wire));
      await this.call('commitRows', () => rows.write(outcome));
      return { locked: messages.length, refused: [] };
    } finally {
      rows.rollback();
      this.locked.delete(rows);
    }
  };

  stats = (request?: StatsRequest) => this.call('stats', () => admin.stats(this.database, request));

  async clean(what: Cleaning, age: number, limit: number): Promise<CleanReport> {
    const removed = await this.writeFound('clean', () => clean.clean(this.database, what, age, limit));
    return { removed, looked: removed }; // one statement comes past all that stay
  }

  create(settings: SchemaSettings): Promise<void> {
    return this.write('create', () => create(this.database, settings));
  }
  check = (settings: SchemaSettings): Promise<void> => this.call('check', () => checkSettings(this.database, settings));
  transports = (names: readonly string[] = [], defaultName?: string): Promise<ReadonlyMap<string, number>> =>
    this.write('transports', () => registerTransports(this.database, names, defaultName));

  /** The only way to the database. @internal */
  call<T>(operation: string, effect: () => T): Promise<T> {
    return this.wire(operation, effect);
  }
  /** A statement that writes, in a transaction of its own. @internal */
  write<T>(operation: string, work: () => T): Promise<T> {
    return this.call(operation, () => this.database.write(work));
  }
  /** One that takes no transaction id when it finds nothing to write: nobody's floor has to look at it. @internal */
  writeFound<T extends number | readonly unknown[]>(operation: string, work: () => T): Promise<T> {
    return this.call(operation, () => {
      const found = work();
      if (Array.isArray(found) ? found.length > 0 : typeof found === 'number' && found > 0) {
        this.database.write(() => undefined);
      }
      return found;
    });
  }
  /** @param lazy its commit does not wait for the disk, where the database has such @internal */
  report(operation: string, work: (transaction: MemoryTransaction) => number, lazy = false): Promise<WriteReport> {
    const fenced = (transaction: MemoryTransaction): WriteReport => ({
      fence: this.provesNothing ? undefined : String(transaction.id),
      affected: work(transaction),
    });
    return this.call(operation, () => this.database.write(fenced, lazy && !this.provesNothing));
  }
  /** Sent again when whoever it waited for has ended. @internal */
  async unblocked<T>(send: () => Promise<T | Blocked>): Promise<T> {
    for (;;) {
      const result = await send();
      if (!(result instanceof Blocked)) return result;
      await result.by.ended;
    }
  }
}

/** Milliseconds. */
const ASK_EVERY = 100;
