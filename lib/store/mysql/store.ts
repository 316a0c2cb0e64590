import { systemClock, within } from '../../time/clock.js';
import type { SqlDatabase } from '../executor.js';
import type { OutboxStore } from '../outbox-store.js';
import { tableNames, type StoreSettings } from '../names.js';
import { OperatorDatabase } from '../sql/operator-database.js';
import { Operators } from '../sql/operators.js';
import { MYSQL } from './dialect.js';
import { MysqlDiagnose } from './diagnose/diagnose.js';
import { MysqlAdmin } from './ops/admin.js';
import { operatorSql } from './ops/operators.js';
import { MysqlAging } from './ops/aging.js';
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
import { TimedSelect } from './inspect/select.js';
import { Inspection } from '../sql/inspect.js';
import { inspectSql } from './inspect/inspect.js';
import { MysqlPartitions } from './partitions/partitions.js';
import { MysqlSetup } from './schema/setup.js';
import { MysqlStats } from './ops/stats.js';
import { MysqlDedupKeys, type DedupKey } from './ready/dedup-keys.js';
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
  readonly operators: Operators<readonly DedupKey[]>;
  readonly partitions: MysqlPartitions;
  readonly aging: MysqlAging;

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
    const reads = new TimedSelect(database, server);
    this.inspect = new Inspection(reads, MYSQL, inspectSql(names, settings), settings);
    const { lookup } = this.inspect;
    this.admin = new MysqlAdmin({ stats, glance });
    this.diagnose = new MysqlDiagnose(database, names, settings, holder);
    const operators = {
      ...{ reads, wake, writer: this.writer },
      database: new OperatorDatabase(database, MYSQL),
      keys: new MysqlDedupKeys(database, names, lookup),
    };
    this.operators = new Operators(operators, names, operatorSql(names, settings), settings);
    this.aging = new MysqlAging(database, names);
    this.partitions = new MysqlPartitions(database, settings, names);
    this.cleaner = new MysqlClean(database, names, wake, this.operators.audits);
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
