import { systemClock, within } from '../../time/clock.js';
import type { SqlDatabase } from '../executor.js';
import type { LeaseStore } from '../lease-store.js';
import type { OutboxStore } from '../outbox-store.js';
import { tableNames, type StoreSettings } from '../names.js';
import { OperatorDatabase } from '../sql/operator-database.js';
import { Operators } from '../sql/operators.js';
import { operatorSql } from './ops/operators.js';
import { MYSQL } from './dialect.js';
import { mysqlQuestions } from './diagnose/diagnose.js';
import { cleanSql, MysqlDedupCleaner } from './ops/clean.js';
import { MysqlInsert } from './ready/insert.js';
import { leaseSql, MysqlFence } from './ops/leases.js';
import { MysqlParked } from './parked/parked.js';
import { MysqlPayloads } from './ready/payloads.js';
import { MysqlReady } from './ready/ready.js';
import { MysqlRowLocks } from './ops/row-locks.js';
import { MysqlServer } from './schema/server.js';
import { MysqlSettle } from './ready/settle.js';
import { TimedSelect } from './inspect/select.js';
import { Aging } from '../sql/aging.js';
import { Diagnosis } from '../sql/diagnose.js';
import { CleanTable } from '../sql/clean.js';
import { LeaseTable } from '../sql/leases.js';
import { Stats } from '../sql/stats.js';
import { Inspection } from '../sql/inspect.js';
import { KeyWake } from '../sql/wake.js';
import { inspectSql } from './inspect/inspect.js';
import { Partitions } from '../sql/partitions.js';
import { mysqlPartitions } from './partitions/partitions.js';
import { SchemaSetup } from '../schema/setup.js';
import { mysqlSetup } from './schema/setup.js';
import { statsSql } from './ops/stats.js';
import { MysqlDedupKeys, type DedupKey } from './ready/dedup-keys.js';
import { mysqlHeads, mysqlWake } from './parked/wake.js';

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
  readonly cleaner: CleanTable;
  readonly setup: SchemaSetup;
  readonly inspect: Inspection;
  readonly diagnose: Diagnosis;
  readonly operators: Operators<readonly DedupKey[]>;
  readonly partitions: Partitions;
  readonly aging: Aging;

  constructor(
    readonly database: SqlDatabase,
    settings: StoreSettings,
  ) {
    const names = tableNames(settings, '`');
    const server = new MysqlServer(database, names.meta);
    const fence = new MysqlFence(names);
    const heads = mysqlHeads(names, settings.ordering);
    const wake = new KeyWake(MYSQL, mysqlWake(names, heads), settings.ordering);
    const settle = new MysqlSettle(database, names, fence, wake, settings.errorHistory);
    this.writer = new MysqlInsert(names, settings.ordering === 'strict');
    this.leases = new LeaseTable(database, MYSQL, leaseSql(names));
    const ofReady = { payloads: new MysqlPayloads(database, names), settle };
    this.ready = new MysqlReady(database, server, names, settings, ofReady);
    this.parked = new MysqlParked(database, names, fence, heads, settings);
    const publishing = (transport: number) => database.publishing?.(transport) ?? database.connection('read');
    const ofRows = { server, settle, parked: this.parked };
    this.rowLocks = new MysqlRowLocks(publishing, settings.buckets, names, ofRows);
    const reads = new TimedSelect(database, server);
    this.inspect = new Inspection(reads, MYSQL, inspectSql(names, settings), settings);
    const { lookup } = this.inspect;
    const keys = new MysqlDedupKeys(database, names, lookup);
    this.admin = new Stats(reads, MYSQL, statsSql(names, settings), settings);
    this.diagnose = new Diagnosis(mysqlQuestions(database, names, settings, server));
    const operators = new OperatorDatabase(database, MYSQL);
    const parts = { database: operators, reads, keys, wake, writer: this.writer };
    this.operators = new Operators(parts, names, operatorSql(names, settings), settings);
    this.aging = new Aging(operators, names);
    this.partitions = new Partitions(database, mysqlPartitions(names, settings));
    const dedup = new MysqlDedupCleaner(database, names, keys);
    this.cleaner = new CleanTable(operators, cleanSql(names), { wake, dedup, audits: this.operators.audits });
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
