import type { TableFacts } from '../../diagnose/diagnose-store.js';
import type { SqlConnection, SqlDatabase, SqlExecutor } from '../../executor.js';
import { TABLE_NAMES, type StoreSettings, type TableNames } from '../../names.js';
import { rowsOf, type Rows } from '../../rows-of.js';
import { averageBytes, readDestinations, readGrowth, readTables, type Questions } from '../../sql/diagnose.js';
import { capabilitiesOf, type MysqlCapabilities } from '../capabilities.js';
import { ONE_WRITER, type MysqlServer } from '../schema/server.js';
import { heldSnapshot } from './held-snapshot.js';
import { readPlans } from './plans.js';
import { missingRights } from './rights.js';
import { readServer } from './server.js';

const HIGHEST = 2n ** 64n - 2n;
/** `ER_UNKNOWN_TABLE`, `ER_NO_SUCH_TABLE`: the plugin is not installed. */
const NO_SUCH_TABLE: ReadonlySet<unknown> = new Set([1109, 1146]);
const MS = `timestampdiff(microsecond, '1970-01-01', `;

/** What the doctor asks MariaDB and MySQL. */
export function mysqlQuestions(
  database: SqlDatabase,
  names: TableNames,
  settings: StoreSettings,
  mysql: MysqlServer,
): Questions {
  const db = (): SqlConnection => database.connection('admin');
  const ask = (text: string, ...values: readonly unknown[]): Promise<Rows> => rowsOf(db(), text, ...values);
  const askOne = async (text: string): Promise<number> => Number((await ask(text))[0]?.[0]);
  const capabilities = async (): Promise<MysqlCapabilities> =>
    capabilitiesOf(String((await ask('select version()'))[0]?.[0]));
  return {
    clock: () => askOne(`select ${MS}utc_timestamp(6)) / 1000`),
    server: async () => {
      const told = await ask(`select 1 from ${names.meta} where name = '${ONE_WRITER}'`);
      return readServer(db(), told.length > 0 || settings.ordering === 'none');
    },
    warnings: () => mysql.warnings(),
    tables: () => readTableSizes(db(), settings),
    plans: async () => readPlans(db(), names, await capabilities()),
    relayRights: () => missingRights(db(), names, 'relay'),
    enqueueRights: () => missingRights(db(), names, 'enqueue'),
    growth: async () =>
      readGrowth(await ask(growthOf(names), settings.schema ?? null, `${settings.prefix}ready`), HIGHEST),
    destinations: () => readDestinations(db(), names),
    /** It needs the right `PROCESS`. */
    unpurged: () => askOne(`select count from information_schema.innodb_metrics where name = 'trx_rseg_history_len'`),
    heldSnapshot: async () => heldSnapshot(db(), names, await capabilities()),
    freeBytes: async () => ((await capabilities()).tellsDisks ? readFreeBytes(db()) : undefined),
  };
}

async function readTableSizes(db: SqlExecutor, { prefix, schema }: StoreSettings): Promise<TableFacts[]> {
  const tables = TABLE_NAMES.map((table) => prefix + table);
  const rows = await rowsOf(
    db,
    `select substr(table_name, ?), table_name, data_length + index_length, table_rows, null, null, 1
     from information_schema.tables
     where table_schema = coalesce(?, database()) and table_name in (${tables.map(() => '?').join(', ')})`,
    prefix.length + 1,
    schema ?? null,
    ...tables,
  );
  return readTables(rows);
}

/** Of the disk on which the data are, as MariaDB's plugin `disks` tells. */
async function readFreeBytes(db: SqlExecutor): Promise<number | undefined> {
  try {
    const [row] = await rowsOf(
      db,
      `select available * 1024 from information_schema.disks where @@datadir like concat(path, '%') order by length(path) desc limit 1`,
    );
    return row === undefined ? undefined : Number(row[0]);
  } catch (error) {
    if (NO_SUCH_TABLE.has((error as { errno?: unknown }).errno)) return undefined;
    throw error;
  }
}

/** Values: schema and name of the ready table. */
function growthOf(names: TableNames): string {
  const { ready, archive } = names;
  const hour = 'utc_timestamp(6) - interval 1 hour';
  const recent = `(select seq, created_at from ${archive} force index (by_time) where published_at > ${hour} order by published_at limit 1) a`;
  const first = `(select seq, created_at from ${ready} force index (by_seq) order by seq limit 1) r`;
  const since = (row: string): string =>
    `(select seq, ${MS}created_at) / 1000 created from ${row} where created_at > ${hour} limit 1)`;
  return `select coalesce(t.auto_increment - 1, 0), ${MS}utc_timestamp(6)) / 1000, e.seq, e.created,
      ${averageBytes(names, (column) => `octet_length(${column})`, '`key`')}
    from information_schema.tables t
      left join (select * from (${since(first)} union all ${since(recent)}) x order by created, seq limit 1) e on true
    where t.table_schema = coalesce(?, database()) and t.table_name = ?`;
}
