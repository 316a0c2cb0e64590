import { systemClock, within } from '../../time/clock.js';
import type { SqlDatabase } from '../executor.js';
import type { BulkStore, ReplayStore } from '../bulk-store.js';
import type { EditStore } from '../edit/edit-store.js';
import type { PurgeStore } from '../edit/purge-store.js';
import type { PauseStore } from '../pauses/pause-store.js';
import type { LeaseStore } from '../lease-store.js';
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
import { bulkSql } from './ops/bulk.js';
import { MysqlUnowned } from './ops/cancel-unowned.js';
import { purgeSql } from './ops/purge.js';
import { cleanSql, MysqlDedupCleaner } from './ops/clean.js';
import { MysqlInsert } from './ready/insert.js';
import { MysqlHeldSnapshot } from './ops/held-snapshot.js';
import { leaseSql, MysqlFence } from './ops/leases.js';
import { MysqlParked } from './parked/parked.js';
import { MysqlPayloads } from './ready/payloads.js';
import { MysqlReady } from './ready/ready.js';
import { replaySql } from './ops/replay.js';
import { MysqlRowLocks } from './ops/row-locks.js';
import { MysqlServer } from './schema/server.js';
import { MysqlSettle } from './ready/settle.js';
import { TimedSelect } from './inspect/select.js';
import { Aging } from '../sql/aging.js';
import { CleanTable } from '../sql/clean.js';
import { LeaseTable } from '../sql/leases.js';
import { Stats } from '../sql/stats.js';
import { Inspection } from '../sql/inspect.js';
import { inspectSql } from './inspect/inspect.js';
import { Partitions } from '../sql/partitions.js';
import { mysqlPartitions } from './partitions/partitions.js';
import { SchemaSetup } from '../schema/setup.js';
import { mysqlSetup } from './schema/setup.js';
import { statsSql } from './ops/stats.js';
import { MysqlDedupKeys } from './ready/dedup-keys.js';
import { MysqlWake } from './parked/wake.js';

/** Milliseconds for the last statement of a store that is closed. */
const FAREWELL = 500;

/** The outbox in MariaDB 10.6+ and MySQL 8: one part for each role of the seam. */
export class MysqlStore implements OutboxStore {
  readonly writer: MysqlInsert;
  readonly leases: LeaseStore;
  readonly ready: MysqlReady;
  readonly parked: MysqlParked;
  readonly rowLocks: MysqlRowLocks;
  readonly admin: Stats;
  readonly rows: MysqlAdmin;
  readonly cleaner: CleanTable;
  readonly setup: SchemaSetup;
  readonly inspect: Inspection;
  readonly diagnose: MysqlDiagnose;
  readonly bulk: BulkStore;
  readonly partitions: Partitions;
  readonly aging: Aging;
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
    this.writer = new MysqlInsert(names, settings.ordering === 'strict');
    this.leases = new LeaseTable(database, MYSQL, leaseSql(names));
    const ofReady = { payloads: new MysqlPayloads(database, names), settle };
    this.ready = new MysqlReady(database, server, names, settings, ofReady);
    this.parked = new MysqlParked(database, names, fence, wake, settings);
    const publishing = (transport: number) => database.publishing?.(transport) ?? database.connection('read');
    const ofRows = { server, settle, parked: this.parked };
    this.rowLocks = new MysqlRowLocks(publishing, settings.buckets, names, ofRows);
    const reads = new TimedSelect(database, server);
    this.inspect = new Inspection(reads, MYSQL, inspectSql(names, settings), settings);
    const { lookup } = this.inspect;
    const keys = new MysqlDedupKeys(database, names, lookup);
    const unowned = new MysqlUnowned(database, names, keys);
    this.admin = new Stats(reads, MYSQL, statsSql(names, settings), settings);
    this.rows = new MysqlAdmin(database, names, settings, { wake, keys, unowned });
    this.diagnose = new MysqlDiagnose(database, names, settings, holder);
    const parts = { reads, lookup, rows: this.rows, writer: this.writer };
    const operators = new OperatorDatabase(database, MYSQL);
    const roles = operatorRoles(operators, operatorSql(names), parts);
    ({ bulk: this.bulk, edits: this.edits, purge: this.purge, replay: this.replay, pauses: this.pauses } = roles);
    this.aging = new Aging(operators, names);
    this.partitions = new Partitions(database, mysqlPartitions(names, settings));
    const dedup = new MysqlDedupCleaner(database, names, keys);
    this.cleaner = new CleanTable(operators, cleanSql(names), { keys: wake, dedup, audits: roles.audits });
    this.setup = new SchemaSetup(database, names, settings, mysqlSetup(database, names, settings, server));
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
