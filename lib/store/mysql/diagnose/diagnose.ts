import {
  ROW_OVERHEAD,
  ROW_SAMPLE,
  type BacklogDestination,
  type DiagnoseStore,
  type GrowthFacts,
  type PlanFacts,
  type RightFacts,
  type ServerFacts,
  type SnapshotFacts,
  type TableFacts,
} from '../../diagnose/diagnose-store.js';
import type { SqlConnection, SqlDatabase } from '../../executor.js';
import { TABLE_NAMES, type StoreSettings, type TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import { capabilitiesOf, type MysqlCapabilities } from '../capabilities.js';
import type { MysqlHeldSnapshot } from '../ops/held-snapshot.js';
import { ONE_WRITER } from '../schema/server.js';
import { readPlans } from './plans.js';
import { missingRights } from './rights.js';
import { readServer } from './server.js';

type Row = readonly unknown[];
const HIGHEST = String(2n ** 64n - 2n);
/** `ER_UNKNOWN_TABLE`, `ER_NO_SUCH_TABLE`: the plugin is not installed. */
const NO_SUCH_TABLE: ReadonlySet<unknown> = new Set([1109, 1146]);
const EPOCH = `timestampdiff(microsecond, '1970-01-01', `;

/** What the doctor asks MariaDB and MySQL. */
export class MysqlDiagnose implements DiagnoseStore {
  constructor(
    readonly database: SqlDatabase,
    readonly names: TableNames,
    readonly settings: StoreSettings,
    private readonly holder: MysqlHeldSnapshot,
  ) {}

  async clock(): Promise<number> {
    const [row] = await this.ask(`select ${EPOCH}utc_timestamp(6))`);
    return Number(row?.[0]) / 1_000;
  }

  async server(): Promise<ServerFacts> {
    const told = await this.ask(`select 1 from ${this.names.meta} where name = '${ONE_WRITER}'`);
    return readServer(this.connection, told.length > 0 || this.settings.ordering === 'none');
  }

  async tables(): Promise<TableFacts[]> {
    const names = TABLE_NAMES.map((table) => this.settings.prefix + table);
    const rows = await this.ask(
      `select table_name, data_length + index_length, table_rows from information_schema.tables
       where table_schema = coalesce(?, database()) and table_name in (${names.map(() => '?').join(', ')})`,
      this.settings.schema ?? null,
      ...names,
    );
    return rows.map(([name, bytes, live]) => ({
      table: String(name).slice(this.settings.prefix.length),
      name: String(name),
      bytes: Number(bytes),
      liveRows: Number(live),
      deadRows: null,
      lastVacuum: null,
      isVacuumedBySelf: true,
    }));
  }

  async plans(): Promise<PlanFacts[]> {
    return readPlans(this.connection, this.names, await this.capabilities());
  }

  missingRights(work: 'relay' | 'enqueue'): Promise<RightFacts> {
    return missingRights(this.connection, this.names, work);
  }

  async growth(): Promise<GrowthFacts> {
    const { ready, parked, archive } = this.names;
    const [row] = await this.ask(
      `select auto_increment, ${EPOCH}utc_timestamp(6)) from information_schema.tables where table_schema = coalesce(?, database()) and table_name = ?`,
      this.settings.schema ?? null,
      `${this.settings.prefix}ready`,
    );
    const part = (from: string): string => `(select seq, ${EPOCH}created_at) created from ${from} limit 1)`;
    const hour = 'utc_timestamp(6) - interval 1 hour';
    const recent = `(select seq, created_at from ${archive} force index (by_time) where published_at > ${hour} order by published_at limit 1) a
      where created_at > ${hour}`;
    const first = `(select seq, created_at from ${ready} force index (by_seq) order by seq limit 1) r where created_at > ${hour}`;
    const earlier = await this.ask(
      `select * from (${part(first)} union all ${part(recent)}) e order by created, seq limit 1`,
    );
    const size = ['payload', 'headers', 'topic', '`key`', 'type']
      .map((column) => `coalesce(octet_length(${column}), 0)`)
      .join(' + ');
    const sizes = [ready, parked, archive].map((table) => `(select ${size} size from ${table} limit ${ROW_SAMPLE})`);
    const [sized] = await this.ask(
      `select sum(size) / count(*) from (${sizes.join(' union all ')}) s having count(*) > 0`,
    );
    const [next, now] = row ?? [];
    const [old] = earlier;
    return {
      last: next === null || next === undefined ? '0' : String(BigInt(String(next)) - 1n),
      highest: HIGHEST,
      at: Number(now) / 1_000,
      earlier: old === undefined ? null : { seq: String(old[0]), at: Number(old[1]) / 1_000 },
      rowBytes: sized === undefined || sized[0] === null ? null : Math.round(Number(sized[0])) + ROW_OVERHEAD,
    };
  }

  async destinations(): Promise<BacklogDestination[]> {
    const { ready, parked } = this.names;
    const part = (table: string): string => `(select transport, topic, options from ${table} limit ${ROW_SAMPLE})`;
    const rows = await this.ask(
      `select distinct transport, topic, options from (${part(ready)} union all ${part(parked)}) x limit 200`,
    );
    return rows.map(([transport, topic, options]) => ({
      transport: Number(transport),
      topic: String(topic),
      options: options === null ? null : String(options),
    }));
  }

  /** Of the whole server. It needs the right `PROCESS`. */
  async unpurged(): Promise<number> {
    const [row] = await this.ask(
      `select count from information_schema.innodb_metrics where name = 'trx_rseg_history_len'`,
    );
    return Number(row?.[0]);
  }

  /** Without the right nothing is asked that the server would refuse. */
  async oldestSnapshot(): Promise<SnapshotFacts> {
    const held = await this.heldSnapshot();
    if (held !== undefined && 'needs' in held) return { age: null, transactions: null };
    return { age: held === undefined ? 0 : (held.age ?? null), transactions: await this.unpurged() };
  }

  heldSnapshot(): ReturnType<MysqlHeldSnapshot['look']> {
    return this.holder.look();
  }

  /** Of the disk on which the data are, as MariaDB's plugin `disks` tells. */
  async freeBytes(): Promise<number | undefined> {
    if (!(await this.capabilities()).tellsDisks) return undefined;
    try {
      const [row] = await this.ask(
        `select available * 1024 from information_schema.disks where @@datadir like concat(path, '%') order by length(path) desc limit 1`,
      );
      return row === undefined ? undefined : Number(row[0]);
    } catch (error) {
      if (NO_SUCH_TABLE.has((error as { errno?: unknown }).errno)) return undefined;
      throw error;
    }
  }

  private async capabilities(): Promise<MysqlCapabilities> {
    const [row] = await this.ask('select version()');
    return capabilitiesOf(String(row?.[0]));
  }
  private get connection(): SqlConnection {
    return this.database.connection('admin');
  }
  private async ask(text: string, ...values: readonly unknown[]): Promise<readonly Row[]> {
    return (await this.connection.run(statement(undefined, text).bind(...values))).rows;
  }
}
