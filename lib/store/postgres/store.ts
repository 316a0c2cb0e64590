import { createHash } from 'node:crypto';
import type { SqlConnection, SqlDatabase } from '../executor.js';
import type { LeaseStore } from '../lease-store.js';
import type { OutboxStore, WakeUp } from '../outbox-store.js';
import { tableNames, type StoreSettings, type TableNames } from '../names.js';
import { OperatorDatabase } from '../sql/operator-database.js';
import { Operators } from '../sql/operators.js';
import { operatorSql } from './ops/operators.js';
import { PostgresDedupKeys } from './ready/dedup-keys.js';
import { postgresWake } from './parked/wake.js';
import { POSTGRES } from './dialect.js';
import { statement } from './statement.js';
import { postgresQuestions } from './diagnose/diagnose.js';
import { cleanSql, PostgresDedupCleaner } from './ops/clean.js';
import { PostgresInsert } from './ready/insert.js';
import { leaseSql } from './ops/leases.js';
import { statsSql } from './ops/stats.js';
import { PostgresParked } from './parked/parked.js';
import { PostgresParkedSettle } from './parked/settle.js';
import { PostgresPayloads } from './ready/payloads.js';
import { PostgresReady, type Connections } from './ready/ready.js';
import { PostgresRowLocks } from './ops/row-locks.js';
import { RowsRead } from './ready/rows-read.js';
import { TimedReads } from './inspect/timed-reads.js';
import { Aging } from '../sql/aging.js';
import { Diagnosis } from '../sql/diagnose.js';
import { CleanTable } from '../sql/clean.js';
import { LeaseTable } from '../sql/leases.js';
import { Stats } from '../sql/stats.js';
import { Inspection } from '../sql/inspect.js';
import { KeyWake } from '../sql/wake.js';
import { inspectSql } from './inspect/inspect.js';
import { Partitions } from '../sql/partitions.js';
import { postgresPartitions } from './partitions/partitions.js';
import { SchemaSetup } from '../schema/setup.js';
import { postgresSetup } from './schema/setup.js';

/** The outbox in PostgreSQL: one part for each role of the seam, on the connection that suits it. */
export class PostgresStore implements OutboxStore {
  readonly names: TableNames;
  readonly writer: PostgresInsert;
  readonly leases: LeaseStore;
  readonly ready: PostgresReady;
  readonly parked: PostgresParked;
  readonly admin: Stats;
  readonly cleaner: CleanTable;
  readonly setup: SchemaSetup;
  readonly rowLocks: PostgresRowLocks;
  readonly inspect: Inspection;
  readonly diagnose: Diagnosis;
  readonly operators: Operators<void>;
  readonly partitions: Partitions;
  readonly aging: Aging;
  readonly channel: string;

  constructor(
    readonly database: SqlDatabase,
    readonly settings: StoreSettings,
  ) {
    const names = tableNames(settings, '"');
    const connections = connectionsOf(database);
    const admin = (): SqlConnection => database.connection('admin'); // slow work of operators holds up nobody else
    this.names = names;
    this.writer = new PostgresInsert(names, !settings.pooler, settings.ordering === 'strict');
    this.leases = new LeaseTable(database, POSTGRES, leaseSql(names));
    const parkedSettle = new PostgresParkedSettle(connections, names, settings.ordering);
    const rowsRead = new RowsRead();
    const payloads = new PostgresPayloads(connections.read, names);
    const ofReady = { parkedSettle, rowsRead, payloads };
    this.ready = new PostgresReady(connections, names, settings.errorHistory, ofReady);
    this.parked = new PostgresParked(connections, names, settings, rowsRead);
    const reads = new TimedReads(admin);
    this.admin = new Stats(reads, POSTGRES, statsSql(names, settings), settings);
    this.inspect = new Inspection(reads, POSTGRES, inspectSql(names, settings), settings);
    this.diagnose = new Diagnosis(postgresQuestions(database, names, settings));
    const operators = new OperatorDatabase(database, POSTGRES);
    const wake = new KeyWake(POSTGRES, postgresWake(names, settings.ordering), settings.ordering);
    const parts = { database: operators, reads, keys: new PostgresDedupKeys(names), wake, writer: this.writer };
    this.operators = new Operators(parts, names, operatorSql(names, settings), settings);
    this.partitions = new Partitions(database, postgresPartitions(names, settings.prefix));
    this.aging = new Aging(operators, names);
    const dedup = new PostgresDedupCleaner(admin, names);
    this.cleaner = new CleanTable(operators, cleanSql(names), { wake, dedup, audits: this.operators.audits });
    this.setup = new SchemaSetup(database, names, settings, postgresSetup(database, names, settings));
    this.rowLocks = new PostgresRowLocks(
      (transport) => database.publishing?.(transport) ?? database.connection('read'),
      settings.buckets,
      names,
      { ready: this.ready, parked: this.parked, rowsRead },
    );
    this.channel = channelOf(names);
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

function connectionsOf(database: SqlDatabase): Connections {
  return { read: () => database.connection('read'), settle: () => database.connection('settle') };
}

/** One name per database: schema and prefix go into it, whatever their length. */
function channelOf({ ready }: TableNames): string {
  return `outbox_${createHash('sha256').update(ready).digest('hex').slice(0, 24)}`;
}
