import { systemClock, within } from '../../time/clock.js';
import type { SqlConnection, SqlDatabase, SqlExecutor } from '../executor.js';
import type { NewMessage } from '../../outbox-message.js';
import type { GlanceRequest, MessageFilter } from '../admin-store.js';
import type { HeldLease, Instance, Lease } from '../lease-store.js';
import type { OutboxStore, SchemaSettings } from '../outbox-store.js';
import type { Death, KeyInBucket, ReparkEntry, ParkedStore, RowLockStore, TakeRequest } from '../parked-store.js';
import type { ParkEntry, SettledMessage } from '../ready-store.js';
import { tableNames, type StoreSettings } from '../names.js';
import { MysqlAdmin } from './ops/admin.js';
import { missingLimits } from './schema/missing-limits.js';
import { MysqlBlockingKeys } from './parked/blocking-keys.js';
import { MysqlClean } from './ops/clean.js';
import { MysqlInsert } from './ready/insert.js';
import { MysqlHeldLeases } from './ops/held-leases.js';
import { MysqlGlance } from './ops/glance.js';
import { MysqlHeldSnapshot } from './ops/held-snapshot.js';
import { MysqlFence, MysqlLeases } from './ops/leases.js';
import { MysqlParked } from './parked/parked.js';
import { MysqlPayloads } from './ready/payloads.js';
import { MysqlReady } from './ready/ready.js';
import { MysqlRowLocks } from './ops/row-locks.js';
import { MysqlServer } from './schema/server.js';
import { MysqlSettle } from './ready/settle.js';
import { MysqlInspect } from './inspect/inspect.js';
import { MysqlPartitions } from './partitions/partitions.js';
import { MysqlSetup } from './schema/setup.js';
import { MysqlStats } from './ops/stats.js';
import { MysqlTake } from './parked/take.js';
import { MysqlWake } from './parked/wake.js';

/** Milliseconds for the last statement of a store that is closed. */
const FAREWELL = 500;

/** MariaDB 10.6+ and MySQL 8. Every method is one of the parts'; this is where they meet. */
export class MysqlStore implements OutboxStore {
  /** A backlog of 200 k rows: 32 buckets a read cost 8.5 µs of the server a row, four 3.4, one 2.0. */
  readonly bucketsPerRead = 4;
  readonly inspect: MysqlInspect;
  readonly partitions: MysqlPartitions;
  /** @internal */ readonly parts: ReturnType<typeof partsOf>;

  constructor(
    readonly database: SqlDatabase,
    settings: StoreSettings,
  ) {
    this.parts = partsOf(database, settings);
    this.inspect = this.parts.inspect;
    this.partitions = this.parts.partitions;
  }

  insert = (tx: SqlExecutor, messages: readonly NewMessage[]) => this.parts.insert.insert(tx, messages);
  mayLeavePart = (messages: readonly NewMessage[]) => this.parts.insert.mayLeavePart(messages);

  acquire = (request: Parameters<MysqlLeases['acquire']>[0]) => this.parts.leases.acquire(request);
  renew = (owner: string, leaseMs: number) => this.parts.leases.renew(owner, leaseMs);
  giveBack = (owner: string, leases: readonly Lease[]) => this.parts.leases.giveBack(owner, leases);
  noteIdle = (owner: string, leases: readonly Lease[], idle: boolean) =>
    this.parts.leases.noteIdle(owner, leases, idle);
  noteTrial = (owner: string, lease: Lease, id: string | null) => this.parts.leases.noteTrial(owner, lease, id);
  lasted = (owner: string, leases: readonly Lease[]) => this.parts.leases.lasted(owner, leases);
  beat = (instance: Instance, ttlMs: number) => this.parts.leases.beat(instance, ttlMs);
  living = () => this.parts.leases.living();
  leave = (owner: string) => this.parts.leases.leave(owner);
  heldLeases = () => this.parts.held.list();
  endLeases = (leases: readonly HeldLease[]) => this.parts.held.end(leases);
  expire = () => this.parts.leases.expire();

  fetch = (request: Parameters<MysqlReady['fetch']>[0]) => this.parts.ready.fetch(request);
  sweep = (...args: Parameters<MysqlReady['sweep']>) => this.parts.ready.sweep(...args);
  readPlaces: OutboxStore['readPlaces'] = (transport, places) => this.parts.ready.readPlaces(transport, places);
  readPayloads: OutboxStore['readPayloads'] = (transport, messages) => this.parts.payloads.read(transport, messages);
  lowest = (...args: Parameters<MysqlReady['lowest']>) => this.parts.ready.lowest(...args);
  probe = (...args: Parameters<MysqlReady['probe']>) => this.parts.ready.probe(...args);
  numberSource = () => this.parts.ready.numberSource();
  heldSnapshot = () => this.parts.holder.look();
  flush = (session?: number) => this.parts.ready.flush(session);
  settle = (transport: number, messages: readonly SettledMessage[], onPublished: 'delete' | 'archive') =>
    this.parts.settle.settle(transport, messages, onPublished);
  park = (owner: string, leases: readonly Lease[], entries: readonly ParkEntry[]) =>
    this.parts.settle.park(owner, leases, entries);

  due = (transport: number, buckets: readonly number[], limit: number) =>
    this.parts.parked.due(transport, buckets, limit);
  take = (request: TakeRequest) => this.parts.parked.take(request);
  repark = (owner: string, leases: readonly Lease[], entries: readonly ReparkEntry[]) =>
    this.parts.parked.repark(owner, leases, entries);
  blockingKeys = (transport: number, buckets: readonly number[], limit: number, after?: ReadonlyMap<number, string>) =>
    this.parts.parked.blockingKeys(transport, buckets, limit, after);
  hasBlocking = (transport: number, buckets: readonly number[]) => this.parts.parked.hasBlocking(transport, buckets);
  hasten: ParkedStore['hasten'] = (...args) => this.parts.parked.hasten(...args);
  blockedAmong = (transport: number, keys: readonly KeyInBucket[]) => this.parts.parked.blockedAmong(transport, keys);
  unannouncedDead = (transports: readonly number[], limit: number, after?: Death) =>
    this.parts.parked.unannouncedDead(transports, limit, after);
  markAnnounced = (deaths: readonly Death[]) => this.parts.parked.markAnnounced(deaths);

  withLockedRows: RowLockStore['withLockedRows'] = (request, work) => this.parts.rowLocks.withLockedRows(request, work);

  requeue = (filter: MessageFilter) => this.parts.admin.apply('requeue', filter);
  discard = (filter: MessageFilter) => this.parts.admin.apply('discard', filter);
  count = (change: 'requeue' | 'discard', filter: MessageFilter) => this.parts.admin.count(change, filter);
  cancel = (filter: MessageFilter) => this.parts.admin.apply('cancel', filter);
  release = (filter: { key: string; transport?: number }) => this.parts.admin.release(filter);
  stats = () => this.parts.stats.stats();
  parkedByTopic = (transport: number, limit: number) => this.parts.stats.parkedByTopic(transport, limit);
  glance = (request: GlanceRequest) => this.parts.glance.look(request);

  cleanArchive = (age: number, limit: number) => this.parts.clean.cleanArchive(age, limit);
  cleanDead = (age: number, limit: number, announcedOnly: boolean) =>
    this.parts.clean.cleanDead(age, limit, announcedOnly);
  cleanDedup = (age: number, limit: number) => this.parts.clean.cleanDedup(age, limit);

  create = (settings: SchemaSettings) => this.parts.setup.create(settings);
  check = (settings: SchemaSettings) => this.parts.setup.check(settings);
  registerTransports = (names: readonly string[], defaultName: string) =>
    this.parts.setup.registerTransports(names, defaultName);
  transports = () => this.parts.setup.transports();
  warnings = async () => [...(await this.parts.server.warnings()), ...(await this.parts.missingLimits())];

  async close(): Promise<void> {
    // A database that is silent must not keep the connections open: an unlocker drops the row a day later.
    await within(
      systemClock,
      FAREWELL,
      this.parts.ready.dropFlushRow().catch(() => undefined),
    );
    await this.database.close();
  }
}

function partsOf(database: SqlDatabase, settings: StoreSettings) {
  const names = tableNames(settings, '`');
  const server = new MysqlServer(database, names.meta);
  const fence = new MysqlFence(names);
  const wake = new MysqlWake(names, settings.ordering);
  const settle = new MysqlSettle(database, names, fence, wake, settings.errorHistory);
  const taker = new MysqlTake(names, settings, fence, wake);
  const parked = new MysqlParked(database, names, fence, taker, new MysqlBlockingKeys(names, wake), settings);
  const publishing = (transport: number): SqlConnection =>
    database.publishing?.(transport) ?? database.connection('read');
  const stats = new MysqlStats(database, names, settings);
  const admin = new MysqlAdmin(database, names, settings, wake);
  return {
    server,
    insert: new MysqlInsert(names, settings.ordering === 'strict'),
    leases: new MysqlLeases(database, names),
    held: new MysqlHeldLeases(database, names),
    holder: new MysqlHeldSnapshot(database, server, names),
    ready: new MysqlReady(database, server, names, settings),
    payloads: new MysqlPayloads(database, names),
    settle,
    parked,
    rowLocks: new MysqlRowLocks(publishing, settings.buckets, names, { server, settle, parked }),
    admin,
    inspect: new MysqlInspect(database, server, names, settings, admin.tooLate),
    stats,
    glance: new MysqlGlance(database, server, names, settings, stats.sql),
    clean: new MysqlClean(database, names, wake),
    partitions: new MysqlPartitions(database, settings, names),
    setup: new MysqlSetup(database, server, settings, names),
    missingLimits: () => missingLimits(database, names, settings),
  };
}
