import { systemClock, within } from '../../time/clock.js';
import type { SqlDatabase } from '../executor.js';
import type { OutboxStore } from '../outbox-store.js';
import { tableNames, type StoreSettings } from '../names.js';
import { auditSql } from './ops/audit.js';
import { editSql } from './ops/edit.js';
import { pauseSql } from './pauses/pauses.js';
import { AuditTable } from '../sql/audit.js';
import { EditTable } from '../sql/edit.js';
import { OperatorDatabase } from '../sql/operator-database.js';
import { PauseTable } from '../sql/pauses.js';
import { MYSQL } from './dialect.js';
import { MysqlDiagnose } from './diagnose/diagnose.js';
import { MysqlAdmin } from './ops/admin.js';
import { MysqlAging } from './ops/aging.js';
import { MysqlBulk } from './ops/bulk.js';
import { MysqlUnowned } from './ops/cancel-unowned.js';
import { MysqlPurge } from './ops/purge.js';
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
import { MysqlReplay } from './ops/replay.js';
import { MysqlRowLocks } from './ops/row-locks.js';
import { MysqlServer } from './schema/server.js';
import { MysqlSettle } from './ready/settle.js';
import { MysqlInspect } from './inspect/inspect.js';
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
  readonly inspect: MysqlInspect;
  readonly diagnose: MysqlDiagnose;
  readonly bulk: MysqlBulk;
  readonly partitions: MysqlPartitions;
  readonly aging: MysqlAging;
  readonly edits: EditTable;
  readonly purge: MysqlPurge;
  readonly replay: MysqlReplay;
  readonly pauses: PauseTable;

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
    const ofReady = { payloads: new MysqlPayloads(database, names), settle, holder };
    this.ready = new MysqlReady(database, server, names, settings, ofReady);
    const taker = new MysqlTake(names, settings, fence, wake);
    this.parked = new MysqlParked(database, names, fence, taker, new MysqlBlockingKeys(names, wake), settings);
    const publishing = (transport: number) => database.publishing?.(transport) ?? database.connection('read');
    const ofRows = { server, settle, parked: this.parked };
    this.rowLocks = new MysqlRowLocks(publishing, settings.buckets, names, ofRows);
    const glance = new MysqlGlance(database, server, names, settings, stats.sql);
    this.inspect = new MysqlInspect(database, server, names, settings);
    const { lookup } = this.inspect;
    const keys = new MysqlDedupKeys(database, names, lookup);
    this.admin = new MysqlAdmin(database, names, settings, { wake, stats, glance, keys });
    this.diagnose = new MysqlDiagnose(database, names, settings, holder);
    const unowned = new MysqlUnowned(database, names, keys);
    const operators = new OperatorDatabase(database, MYSQL);
    const audits = new AuditTable(operators, auditSql(names), names);
    this.bulk = new MysqlBulk(database, server, names, { admin: this.admin, unowned, lookup }, audits);
    this.edits = new EditTable(operators, editSql(names), this.admin, audits);
    this.purge = new MysqlPurge(database, server, names, audits);
    this.replay = new MysqlReplay(database, server, names, this.writer);
    this.pauses = new PauseTable(operators, pauseSql(names), audits);
    this.aging = new MysqlAging(database, names);
    this.partitions = new MysqlPartitions(database, settings, names);
    this.cleaner = new MysqlClean(database, names, wake, audits);
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
