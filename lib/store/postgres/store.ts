import { createHash } from 'node:crypto';
import type { SqlConnection, SqlDatabase } from '../executor.js';
import type { BulkStore, ReplayStore } from '../bulk-store.js';
import type { EditStore } from '../edit/edit-store.js';
import type { PurgeStore } from '../edit/purge-store.js';
import type { PauseStore } from '../pauses/pause-store.js';
import type { OutboxStore, WakeUp } from '../outbox-store.js';
import { tableNames, type StoreSettings, type TableNames } from '../names.js';
import { auditSql } from './ops/audit.js';
import { editSql } from './ops/edit.js';
import { pauseSql } from './pauses/pauses.js';
import { OperatorDatabase } from '../sql/operator-database.js';
import { operatorRoles, type OperatorSql } from '../sql/operator-roles.js';
import { POSTGRES } from './dialect.js';
import { statement } from './statement.js';
import { PostgresDiagnose } from './diagnose/diagnose.js';
import { PostgresAdmin } from './ops/admin.js';
import { PostgresAging } from './ops/aging.js';
import { bulkSql } from './ops/bulk.js';
import { purgeSql } from './ops/purge.js';
import { PostgresCleaner } from './ops/clean.js';
import { PostgresInsert } from './ready/insert.js';
import { PostgresLeases } from './ops/leases.js';
import { PostgresParked } from './parked/parked.js';
import { PostgresParkedSettle } from './parked/settle.js';
import { PostgresPayloads } from './ready/payloads.js';
import { PostgresReady, type Connections } from './ready/ready.js';
import { replaySql } from './ops/replay.js';
import { PostgresRowLocks } from './ops/row-locks.js';
import { RowsRead } from './ready/rows-read.js';
import { TimedReads } from './inspect/timed-reads.js';
import { Inspection } from '../sql/inspect.js';
import { inspectSql } from './inspect/inspect.js';
import { PostgresPartitions } from './partitions/partitions.js';
import { PostgresSetup } from './schema/setup.js';

/** The outbox in PostgreSQL: one part for each role of the seam, on the connection that suits it. */
export class PostgresStore implements OutboxStore {
  readonly names: TableNames;
  readonly writer: PostgresInsert;
  readonly leases: PostgresLeases;
  readonly ready: PostgresReady;
  readonly parked: PostgresParked;
  readonly admin: PostgresAdmin;
  readonly cleaner: PostgresCleaner;
  readonly setup: PostgresSetup;
  readonly rowLocks: PostgresRowLocks;
  readonly inspect: Inspection;
  readonly diagnose: PostgresDiagnose;
  readonly bulk: BulkStore;
  readonly partitions: PostgresPartitions;
  readonly aging: PostgresAging;
  readonly edits: EditStore;
  readonly purge: PurgeStore;
  readonly replay: ReplayStore;
  readonly pauses: PauseStore;
  readonly channel: string;

  constructor(
    readonly database: SqlDatabase,
    readonly settings: StoreSettings,
  ) {
    const names = tableNames(settings, '"');
    const connections = connectionsOf(database);
    const admin = (): SqlConnection => database.connection('admin'); // slow work of operators holds up nobody else
    this.names = names;
    this.writer = new PostgresInsert(names, settings.preparedStatements, settings.ordering === 'strict');
    this.leases = new PostgresLeases(() => database.connection('lease'), names);
    const parkedSettle = new PostgresParkedSettle(connections, names, settings.ordering);
    const rowsRead = new RowsRead();
    const payloads = new PostgresPayloads(connections.read, names);
    const ofReady = { parkedSettle, rowsRead, payloads };
    this.ready = new PostgresReady(connections, names, settings.errorHistory, ofReady);
    this.parked = new PostgresParked(connections, names, settings, rowsRead);
    this.admin = new PostgresAdmin(admin, names, settings);
    const reads = new TimedReads(admin);
    this.inspect = new Inspection(reads, POSTGRES, inspectSql(names, settings), settings);
    this.diagnose = new PostgresDiagnose(database, names, settings);
    const { lookup } = this.inspect;
    const parts = { reads, lookup, rows: this.admin, writer: this.writer };
    const roles = operatorRoles(new OperatorDatabase(database, POSTGRES), operatorSql(names), parts);
    ({ bulk: this.bulk, edits: this.edits, purge: this.purge, replay: this.replay, pauses: this.pauses } = roles);
    this.partitions = new PostgresPartitions(database, names, settings.prefix);
    this.aging = new PostgresAging(admin, names);
    this.cleaner = new PostgresCleaner(admin, names, this.admin, roles.audits);
    this.setup = new PostgresSetup(admin, connections.read, names, settings);
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
  return {
    read: () => database.connection('read'),
    settle: () => database.connection('settle'),
    write: () => database.connection('settle'), // where each write that must last says so itself
  };
}

/** One name per database: schema and prefix go into it, whatever their length. */
function channelOf({ ready }: TableNames): string {
  return `outbox_${createHash('sha256').update(ready).digest('hex').slice(0, 24)}`;
}

const operatorSql = (names: TableNames): OperatorSql => ({
  audit: auditSql(names),
  bulk: bulkSql(names),
  edit: editSql(names),
  pauses: pauseSql(names),
  purge: purgeSql(names),
  replay: replaySql(names),
});
