import type { SqlDatabase, SqlResult } from '../../executor.js';
import { unsuitable } from '../../unsuitable.js';
import type { SchemaSettings } from '../../outbox-store.js';
import { statement } from '../../sql.js';
import { capabilitiesOf } from '../capabilities.js';

export interface ServerState {
  readonly version: string;
  readonly binaryLog: boolean;
  readonly binaryLogFormat: string;
  readonly syncBinlog: number;
  readonly flushAtCommit: number;
  readonly maxAllowedPacket: number;
  readonly sqlMode: string;
  /** Nobody writes here, or only who may overrule it: a replica. */
  readonly readOnly: boolean;
  /** Above 1: several servers deal out numbers, each from its own sequence. */
  readonly increment: number;
  /**
   * With a synced binary log a commit is on disk before others see it. Without one InnoDB shows it first and flushes
   * after: seen 3 s early on a slow disk.
   */
  readonly visibleIsDurable: boolean;
}

/** Two columns, for {@link isReadOnly}. */
export const READ_ONLY = '@@global.read_only, @@global.innodb_read_only';

const STATE = statement(
  'server state',
  `select version(), @@global.log_bin, @@global.binlog_format, @@global.sync_binlog,
     @@global.innodb_flush_log_at_trx_commit, @@global.max_allowed_packet, @@global.sql_mode,
     ${READ_ONLY}, @@global.auto_increment_increment`,
);

/** No rows where there are no such variables: on MySQL. */
const GALERA = statement('galera', `show variables where variable_name in ('wsrep_on', 'wsrep_provider')`);

/** Settings of the server that decide what its answers are worth; read again after every reconnect. */
export class MysqlServer {
  private known: { generation: number; state: ServerState } | undefined;

  constructor(
    readonly database: SqlDatabase,
    readonly meta: string,
  ) {}

  async state(): Promise<ServerState> {
    const read = this.database.connection('read');
    if (this.known !== undefined && this.known.generation === read.generation) return this.known.state;
    const { rows } = await read.run(STATE.bind());
    const [version, logBin, format, sync, flush, packet, sqlMode, readOnly, innodbReadOnly, increment] =
      rows[0] as readonly unknown[];
    const binaryLog = isOn(logBin);
    const state: ServerState = {
      version: String(version),
      binaryLog,
      binaryLogFormat: String(format),
      syncBinlog: Number(sync),
      flushAtCommit: Number(flush),
      maxAllowedPacket: Number(packet),
      sqlMode: String(sqlMode),
      readOnly: isReadOnly([readOnly, innodbReadOnly]),
      increment: Number(increment),
      visibleIsDurable: binaryLog && Number(sync) === 1 && Number(flush) === 1,
    };
    this.known = { generation: read.generation, state };
    return state;
  }

  /** @throws OutboxConfigurationError when what the server is makes an outbox on it impossible */
  async check(ordering: SchemaSettings['ordering']): Promise<void> {
    const { version, readOnly, binaryLog, binaryLogFormat, increment } = await this.state();
    capabilitiesOf(version);
    if (readOnly) {
      throw unsuitable(
        'The database is read-only (read_only): a replica.',
        "Point the data layer, or the master of TypeORM's replication option, at the primary.",
      );
    }
    if (binaryLog && binaryLogFormat === 'STATEMENT') {
      throw unsuitable(
        'binlog_format is STATEMENT, which refuses READ COMMITTED writes.',
        'The relay needs them: set it to ROW or MIXED.',
      );
    }
    const several = ordering === 'none' ? undefined : severalPrimaries(increment, await this.galera());
    if (several !== undefined && !(await this.hasOneWriter())) {
      throw unsuitable(
        `${several}: several servers deal out numbers, so that they are not in the order of the inserts.`,
        `Use ordering: 'none'; or, where only one of them is ever written to, say so in the meta table: ` +
          `insert into ${this.meta} (name, value) values ('${ONE_WRITER}', 'yes').`,
      );
    }
  }

  /** Said by an operator; tables that are not there yet say nothing. */
  private async hasOneWriter(): Promise<boolean> {
    const sql = statement(undefined, `select value from ${this.meta} where name = '${ONE_WRITER}'`);
    const { rows } = await this.database
      .connection('admin')
      .run(sql.bind())
      .catch(() => NONE);
    return rows[0]?.[0] === 'yes';
  }

  private async galera(): Promise<ReadonlyMap<string, unknown>> {
    const { rows } = await this.database.connection('read').run(GALERA.bind());
    return new Map(rows.map(([name, value]) => [String(name), value]));
  }

  async warnings(): Promise<string[]> {
    const state = await this.state();
    const found: string[] = [];
    if (state.flushAtCommit !== 1) {
      found.push(
        `innodb_flush_log_at_trx_commit is ${state.flushAtCommit}: a crash of the server can lose committed messages, ` +
          'also ones that were published already. Set it to 1.',
      );
    }
    if (state.binaryLog && state.syncBinlog !== 1) {
      found.push(
        `sync_binlog is ${state.syncBinlog}: after a crash of the server the binary log, and its replicas, can lack committed messages. Set it to 1.`,
      );
    }
    if (state.readOnly) {
      found.push(
        "The database is read-only: nothing can be published from it. Point the data layer, or the master of TypeORM's replication option, at the primary.",
      );
    }
    if (!/STRICT_(TRANS|ALL)_TABLES/.test(state.sqlMode)) {
      found.push(
        'sql_mode is not strict: enqueue checks what it writes, but what plain SQL inserts, here and in your own tables, is cut in silence where it is too long. Add STRICT_TRANS_TABLES.',
      );
    }
    return found;
  }
}

/**
 * What tells of several servers that take writes. In a Galera cluster any node does, also where the increment is 1
 * (`wsrep_auto_increment_control` off); builds for it may say ON where no provider is loaded, so that no cluster is.
 */
export function severalPrimaries(increment: number, galera: ReadonlyMap<string, unknown>): string | undefined {
  if (increment > 1) return `auto_increment_increment is ${increment}`;
  const provider = String(galera.get('wsrep_provider')).toLowerCase();
  const clustered = isOn(galera.get('wsrep_on')) && provider !== 'none' && provider !== '';
  return clustered ? 'wsrep_on is ON (Galera)' : undefined;
}

const NONE: Pick<SqlResult, 'rows'> = { rows: [] };
/** Row of the meta table by which an operator says that only one server is written to. */
export const ONE_WRITER = 'one_writer';

export const isReadOnly = (settings: readonly unknown[]): boolean => !settings.every(isOff);
const isOff = (value: unknown): boolean => ['0', 'OFF'].includes(String(value).toUpperCase());
const isOn = (value: unknown): boolean => ['1', 'ON'].includes(String(value).toUpperCase());
