import { createHash } from 'node:crypto';
import type { SqlConnection, SqlDatabase, SqlExecutor } from '../executor.js';
import type {
  DedupReport,
  GlanceRequest,
  MessageFilter,
  OperatorReport,
  TransportGlance,
  TransportStats,
} from '../admin-store.js';
import type { Acquired, Beat, HeldLease, Instance, Lease, LeaseStore } from '../lease-store.js';
import type { InsertReport, OutboxStore, SchemaSettings, WakeUp } from '../outbox-store.js';
import type {
  DeadLetter,
  Death,
  KeyInBucket,
  ParkedStore,
  ReparkEntry,
  RowLockStore,
  TakeRequest,
  TakeResult,
} from '../parked-store.js';
import type { FetchResult, ParkEntry, ReadyStore, SettledMessage, WriteReport } from '../ready-store.js';
import type { NewMessage } from '../../outbox-message.js';
import { tableNames, type StoreSettings, type TableNames } from '../names.js';
import { statement } from './statement.js';
import { PostgresAdmin } from './ops/admin.js';
import { PostgresCleaner } from './ops/clean.js';
import { PostgresHeldSnapshot } from './ops/held-snapshot.js';
import { PostgresInsert } from './ready/insert.js';
import { PostgresLeases } from './ops/leases.js';
import { checkOrigin } from './schema/origin.js';
import { PostgresParked } from './parked/parked.js';
import { PostgresParkedSettle } from './parked/settle.js';
import { PostgresPayloads } from './ready/payloads.js';
import { PostgresReady } from './ready/ready.js';
import { PostgresRowLocks } from './ops/row-locks.js';
import { RowsRead } from './ready/rows-read.js';
import { PostgresInspect } from './inspect/inspect.js';
import { PostgresPartitions } from './partitions/partitions.js';
import { PostgresSetup } from './schema/setup.js';

/** The outbox in PostgreSQL: one part per role of the seam, on the connection that suits it. */
export class PostgresStore implements OutboxStore {
  readonly names: TableNames;
  /** @internal */ readonly writer: PostgresInsert;
  /** @internal */ readonly leases: PostgresLeases;
  /** @internal */ readonly ready: PostgresReady;
  /** @internal */ readonly payloads: PostgresPayloads;
  /** @internal */ readonly parked: PostgresParked;
  /** @internal */ readonly admin: PostgresAdmin;
  /** @internal */ readonly cleaner: PostgresCleaner;
  /** @internal */ readonly setup: PostgresSetup;
  /** @internal */ readonly rowLocks: PostgresRowLocks;
  /** @internal */ readonly holder: PostgresHeldSnapshot;
  readonly inspect: PostgresInspect;
  readonly partitions: PostgresPartitions;
  /** @internal */ readonly channel: string;

  constructor(
    readonly database: SqlDatabase,
    readonly settings: StoreSettings,
  ) {
    const names = tableNames(settings, '"');
    const connections = {
      read: () => database.connection('read'),
      settle: () => database.connection('settle'),
      write: () => database.connection('settle'), // where each write that must last says so itself
    };
    const admin = (): SqlConnection => database.connection('admin'); // slow work of operators holds up nobody else
    this.names = names;
    this.writer = new PostgresInsert(names, settings.preparedStatements, settings.ordering === 'strict');
    this.leases = new PostgresLeases(() => database.connection('lease'), names);
    const parkedSettle = new PostgresParkedSettle(connections, names, settings.ordering);
    const rowsRead = new RowsRead();
    this.ready = new PostgresReady(connections, names, parkedSettle, settings.errorHistory, rowsRead);
    this.payloads = new PostgresPayloads(connections.read, names);
    this.parked = new PostgresParked(connections, names, settings, rowsRead);
    this.admin = new PostgresAdmin(admin, names, settings);
    this.inspect = new PostgresInspect(admin, names, settings);
    this.partitions = new PostgresPartitions(database, names, settings.prefix);
    this.cleaner = new PostgresCleaner(admin, names, this.admin);
    this.setup = new PostgresSetup(admin, names, settings);
    this.holder = new PostgresHeldSnapshot(admin, names);
    this.rowLocks = new PostgresRowLocks(
      (transport) => database.publishing?.(transport) ?? database.connection('read'),
      settings.buckets,
      names,
      { ready: this.ready, parked: this.parked, rowsRead },
    );
    // A channel is one name per database: schema and prefix go into it, whatever their length.
    this.channel = `outbox_${createHash('sha256').update(names.ready).digest('hex').slice(0, 24)}`;
  }

  insert(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<InsertReport> {
    return this.writer.insert(tx, messages);
  }

  acquire(request: Parameters<LeaseStore['acquire']>[0]): Promise<Acquired[]> {
    return this.leases.acquire(request);
  }
  renew(owner: string, leaseMs: number): Promise<Lease[]> {
    return this.leases.renew(owner, leaseMs);
  }
  giveBack(owner: string, leases: readonly Lease[]): Promise<void> {
    return this.leases.giveBack(owner, leases);
  }
  noteIdle(owner: string, leases: readonly Lease[], idle: boolean): Promise<void> {
    return this.leases.noteIdle(owner, leases, idle);
  }
  noteTrial(owner: string, lease: Lease, id: string | null): Promise<boolean> {
    return this.leases.noteTrial(owner, lease, id);
  }
  lasted(owner: string, leases: readonly Lease[]): Promise<void> {
    return this.leases.lasted(owner, leases);
  }
  beat(instance: Instance, ttlMs: number): Promise<Beat> {
    return this.leases.beat(instance, ttlMs);
  }
  living(): Promise<Beat> {
    return this.leases.living();
  }
  leave(owner: string): Promise<void> {
    return this.leases.leave(owner);
  }
  heldLeases(): Promise<HeldLease[]> {
    return this.leases.heldLeases();
  }
  endLeases(leases: readonly HeldLease[]): Promise<Lease[]> {
    return this.leases.endLeases(leases);
  }
  expire(): Promise<(Lease & { owner: string })[]> {
    return this.leases.expire();
  }

  fetch(request: Parameters<ReadyStore['fetch']>[0]): Promise<FetchResult> {
    return this.ready.fetch(request);
  }
  sweep(...args: Parameters<ReadyStore['sweep']>): ReturnType<ReadyStore['sweep']> {
    return this.ready.sweep(...args);
  }
  lowest(...args: Parameters<PostgresReady['lowest']>): ReturnType<PostgresReady['lowest']> {
    return this.ready.lowest(...args);
  }
  edge(): ReturnType<PostgresReady['edge']> {
    return this.ready.edge();
  }
  readPlaces(...args: Parameters<ReadyStore['readPlaces']>): Promise<FetchResult> {
    return this.ready.readPlaces(...args);
  }
  readPayloads(...args: Parameters<ReadyStore['readPayloads']>): ReturnType<ReadyStore['readPayloads']> {
    return this.payloads.read(...args);
  }
  heldSnapshot(): ReturnType<PostgresHeldSnapshot['look']> {
    return this.holder.look();
  }
  flush(session?: number): Promise<void> {
    return this.ready.flush(session);
  }
  settle(
    transport: number,
    messages: readonly SettledMessage[],
    onPublished: 'delete' | 'archive',
  ): Promise<WriteReport> {
    return this.ready.settle(transport, messages, onPublished);
  }
  park(owner: string, leases: readonly Lease[], entries: readonly ParkEntry[]): Promise<WriteReport> {
    return this.ready.park(owner, leases, entries);
  }

  due(transport: number, buckets: readonly number[], limit: number): ReturnType<ParkedStore['due']> {
    return this.parked.due(transport, buckets, limit);
  }
  take(request: TakeRequest): Promise<TakeResult> {
    return this.parked.take(request);
  }
  repark(owner: string, leases: readonly Lease[], entries: readonly ReparkEntry[]): Promise<WriteReport> {
    return this.parked.repark(owner, leases, entries);
  }
  blockingKeys(...args: Parameters<ParkedStore['blockingKeys']>): ReturnType<ParkedStore['blockingKeys']> {
    return this.parked.blockingKeys(...args);
  }
  hasBlocking(transport: number, buckets: readonly number[]): Promise<boolean> {
    return this.parked.hasBlocking(transport, buckets);
  }

  hasten(...args: Parameters<ParkedStore['hasten']>): ReturnType<ParkedStore['hasten']> {
    return this.parked.hasten(...args);
  }
  blockedAmong(transport: number, keys: readonly KeyInBucket[]): Promise<KeyInBucket[]> {
    return this.parked.blockedAmong(transport, keys);
  }
  unannouncedDead(...args: Parameters<ParkedStore['unannouncedDead']>): Promise<DeadLetter[]> {
    return this.parked.unannouncedDead(...args);
  }
  markAnnounced(deaths: readonly Death[]): Promise<void> {
    return this.parked.markAnnounced(deaths);
  }

  withLockedRows(
    request: Parameters<RowLockStore['withLockedRows']>[0],
    work: Parameters<RowLockStore['withLockedRows']>[1],
  ): ReturnType<RowLockStore['withLockedRows']> {
    return this.rowLocks.withLockedRows(request, work);
  }

  requeue(filter: MessageFilter): Promise<OperatorReport> {
    return this.admin.requeue(filter);
  }
  discard(filter: MessageFilter): Promise<OperatorReport> {
    return this.admin.discard(filter);
  }
  count(change: 'requeue' | 'discard', filter: MessageFilter): Promise<number> {
    return this.admin.count(change, filter);
  }
  cancel(filter: MessageFilter): Promise<OperatorReport> {
    return this.admin.cancel(filter);
  }
  release(filter: { key: string; transport?: number }): Promise<{ released: number }> {
    return this.admin.release(filter);
  }
  stats(): Promise<TransportStats[]> {
    return this.admin.stats();
  }
  parkedByTopic(transport: number, limit: number): Promise<ReadonlyMap<string, number>> {
    return this.admin.parkedByTopic(transport, limit);
  }
  glance(request: GlanceRequest): Promise<TransportGlance[] | undefined> {
    return this.admin.glance(request);
  }

  cleanArchive(age: number, limit: number): Promise<number> {
    return this.cleaner.cleanArchive(age, limit);
  }
  cleanDead(age: number, limit: number, announcedOnly: boolean): Promise<number> {
    return this.cleaner.cleanDead(age, limit, announcedOnly);
  }
  cleanDedup(age: number, limit: number): Promise<DedupReport> {
    return this.cleaner.cleanDedup(age, limit);
  }

  create(settings: SchemaSettings): Promise<void> {
    return this.setup.create(settings);
  }
  check(settings: SchemaSettings): Promise<void> {
    return this.setup.check(settings);
  }
  registerTransports(names: readonly string[], defaultName: string): Promise<ReadonlyMap<string, number>> {
    return this.setup.registerTransports(names, defaultName);
  }
  transports(): Promise<ReadonlyMap<string, number>> {
    return this.setup.transports();
  }
  checkOrigin(): Promise<void> {
    // Not where operators and the cleaner may wait for a lock: the first read waits for this.
    return checkOrigin(this.database.connection('read'), this.names);
  }
  warnings(): Promise<string[]> {
    return this.setup.warnings();
  }

  async notify(where: WakeUp = 'ready'): Promise<void> {
    const payload = where === 'ready' ? '' : `, '${where}'`;
    await this.database.connection('lease').run(statement(undefined, `notify "${this.channel}"${payload}`).bind());
  }
  async listen(
    onNotify: (where: WakeUp) => void,
    onLost: (error: unknown) => void,
  ): Promise<{ close(): Promise<void> } | undefined> {
    if (this.database.listen === undefined) throw new Error('This database cannot listen.');
    const told = (payload: string): void => onNotify(payload === 'parked' || payload === 'leases' ? payload : 'ready');
    return this.database.listen(this.channel, told, onLost);
  }
  close(): Promise<void> {
    return this.database.close();
  }
}
