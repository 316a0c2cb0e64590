import type { SqlDatabase } from '../executors/executor.js';
import { statement } from '../sql.js';

export interface ServerState {
  readonly version: string;
  readonly binaryLog: boolean;
  readonly binaryLogFormat: string;
  readonly syncBinlog: number;
  readonly flushAtCommit: number;
  readonly maxAllowedPacket: number;
  readonly sqlMode: string;
  /**
   * With a synced binary log a commit is on disk before others see it. Without one InnoDB shows it first and flushes
   * after: seen 3 s early on a slow disk.
   */
  readonly visibleIsDurable: boolean;
}

const STATE = statement(
  'server state',
  `select version(), @@global.log_bin, @@global.binlog_format, @@global.sync_binlog,
     @@global.innodb_flush_log_at_trx_commit, @@global.max_allowed_packet, @@global.sql_mode`,
);

/** Settings of the server that decide what its answers are worth; read again after every reconnect. */
export class MysqlServer {
  /** @internal */ known: { generation: number; state: ServerState } | undefined;

  constructor(readonly database: SqlDatabase) {}

  async state(): Promise<ServerState> {
    const read = this.database.connection('read');
    if (this.known !== undefined && this.known.generation === read.generation) return this.known.state;
    const { rows } = await read.run(STATE.bind());
    const [version, logBin, format, sync, flush, packet, sqlMode] = rows[0] as readonly unknown[];
    const binaryLog = isOn(logBin);
    const state: ServerState = {
      version: String(version),
      binaryLog,
      binaryLogFormat: String(format),
      syncBinlog: Number(sync),
      flushAtCommit: Number(flush),
      maxAllowedPacket: Number(packet),
      sqlMode: String(sqlMode),
      visibleIsDurable: binaryLog && Number(sync) === 1 && Number(flush) === 1,
    };
    this.known = { generation: read.generation, state };
    return state;
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
    if (state.binaryLog && state.binaryLogFormat === 'STATEMENT') {
      found.push(
        'binlog_format is STATEMENT: it refuses READ COMMITTED writes, which the relay needs. Set it to ROW or MIXED.',
      );
    }
    if (state.binaryLog && state.syncBinlog !== 1) {
      found.push(
        `sync_binlog is ${state.syncBinlog}: after a crash of the server the binary log, and its replicas, can lack committed messages.`,
      );
    }
    if (!/STRICT_(TRANS|ALL)_TABLES/.test(state.sqlMode)) {
      found.push(
        'sql_mode is not strict: the server cuts values that are too long instead of refusing them. Add STRICT_TRANS_TABLES.',
      );
    }
    return found;
  }
}

const isOn = (value: unknown): boolean => ['1', 'ON'].includes(String(value).toUpperCase());
