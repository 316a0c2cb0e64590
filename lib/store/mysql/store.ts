import { systemClock, within } from '../../time/clock.js';
import type { SqlDatabase } from '../executor.js';
import type { BulkStore, ReplayStore } from '../bulk-store.js';
import type { EditStore } from '../edit/edit-store.js';
import type { PurgeStore } from '../edit/purge-store.js';
import type { PauseStore } from '../pauses/pause-store.js';
import type { OutboxStore } from '../outbox-store.js';
import { tableNames, type StoreSettings, type TableNames } from '../names.js';
import { auditSql } from './ops/audit.js';
import { editSql } from './ops/edit.js';
import { pauseSql } from './pauses/pauses.js';
import { OperatorDatabase } from '../sql/operator-database.js';
import { operatorRoles, type OperatorSql } from '../sql/operator-roles.js';
import { MYSQL } from './dialect.js';
import { MysqlDiagnose } from './diagnose/diagnose.js';
import { MysqlAdmin } from './ops/admin.js';
import { MysqlAging } from './ops/aging.js';
import { bulkSql } from './ops/bulk.js';
import { MysqlUnowned } from './ops/cancel-unowned.js';
import { purgeSql } from './ops/purge.js';
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
import { replaySql } from './ops/replay.js';
import { MysqlRowLocks } from './ops/row-locks.js';
import { MysqlServer } from './schema/server.js';
import { MysqlSettle } from './ready/settle.js';
import { TimedSelect } from './inspect/select.js';
import { Inspection } from '../sql/inspect.js';
import { inspectSql } from './inspect/inspect.js';
import { MysqlPartitions } from './partitions/partitions.js';
import { MysqlSetup } from './schema/setup.js';
import { MysqlStats } from './ops/stats.js';
import { MysqlDedupKeys } from './ready/dedup-keys.js';
import { MysqlTake } from './parked/take.js';
import { MysqlWake } from './parked/wake.js';

/** Milliseconds for the last statement of a store that is closed. */
const FAREWELL = 500;

/** The outbox in MariaDB 10.6+ and MySQL 8: one part for each role of the seam. */
export class MysqlStore implements OutboxStore {
  readonly writer: MysqlInsert;
  readonly leases: MysqlLeases;
  readonly ready: MysqlReady;
  readonly parked: MysqlParked;
  readonly rowLocks: MysqlRowLocks;
  readonly admin: MysqlAdmin;
  readonly cleaner: MysqlClean;
  readonly setup: MysqlSetup;
  readonly inspect: Inspection;
  readonly diagnose: MysqlDiagnose;
  readonly bulk: BulkStore;
  readonly partitions: MysqlPartitions;
  readonly aging: MysqlAging;
  readonly edits: EditStore;
  readonly purge: PurgeStore;
  readonly replay: ReplayStore;
  readonly pauses: PauseStore;

  constructor(
    readonly database: SqlDatabase,
    settings: StoreSettings,
  ) {
    const names = tableNames(settings, '`');
    const server = new MysqlServer(database, names.meta);
    const fence = new MysqlFence(names);
    const wake = new MysqlWake(names, settings.ordering);
    const settle = new MysqlSettle(database, names, fence, wake, settings.errorHistory);
    const holder = new MysqlHeldSnapshot(database, server, names);
    const stats = new MysqlStats(database, names, settings);
    this.writer = new MysqlInsert(names, settings.ordering === 'strict');
    this.leases = new MysqlLeases(database, names, new MysqlHeldLeases(database, names));
    const ofReady = { payloads: new MysqlPayloads(database, names), settle };
    this.ready = new MysqlReady(database, server, names, settings, ofReady);
    const taker = new MysqlTake(names, settings, fence, wake);
    this.parked = new MysqlParked(database, names, fence, taker, new MysqlBlockingKeys(names, wake), settings);
    const publishing = (transport: number) => database.publishing?.(transport) ?? database.connection('read');
    const ofRows = { server, settle, parked: this.parked };
    this.rowLocks = new MysqlRowLocks(publishing, settings.buckets, names, ofRows);
    const glance = new MysqlGlance(database, server, names, settings, stats.sql);
    const reads = new TimedSelect(database, server);
    this.inspect = new Inspection(reads, MYSQL, inspectSql(names, settings), settings);
    const { lookup } = this.inspect;
    const keys = new MysqlDedupKeys(database, names, lookup);
    const unowned = new MysqlUnowned(database, names, keys);
    this.admin = new MysqlAdmin(database, names, settings, { wake, stats, glance, keys, unowned });
    this.diagnose = new MysqlDiagnose(database, names, settings, holder);
    const parts = { reads, lookup, rows: this.admin, writer: this.writer };
    const roles = operatorRoles(new OperatorDatabase(database, MYSQL), operatorSql(names), parts);
    ({ bulk: this.bulk, edits: this.edits, purge: this.purge, replay: this.replay, pauses: this.pauses } = roles);
    this.aging = new MysqlAging(database, names);
    this.partitions = new MysqlPartitions(database, settings, names);
    this.cleaner = new MysqlClean(database, names, wake, roles.audits);
    this.setup = new MysqlSetup(database, server, settings, names);
  }

  async close(): Promise<void> {
    // A database that is silent must not keep the connections open: an unlocker drops the row a day later.
    await within(
      systemClock,
      FAREWELL,
      this.ready.dropFlushRow().catch(() => undefined),
    );
    await this.database.close();
  }
}

const operatorSql = (names: TableNames): OperatorSql => ({
  audit: auditSql(names),
  bulk: bulkSql(names),
  edit: editSql(names),
  pauses: pauseSql(names),
  purge: purgeSql(names),
  replay: replaySql(names),
});
