import type { SqlDatabase } from '../../executor.js';
import { TABLE_NAMES, type StoreSettings, type TableNames } from '../../names.js';
import type { SchemaDialect } from '../../schema/setup.js';
import { rowsOf } from '../../rows-of.js';
import { statement } from '../../sql.js';
import { jsonRows, jsonTable } from '../json-rows.js';
import { compareSchema } from './compare-schema.js';
import { oneAtATime } from './lock.js';
import { mysqlSchemaUp } from './schema.js';
import type { MysqlServer } from './server.js';

export function mysqlSetup(
  database: SqlDatabase,
  names: TableNames,
  { schema, prefix, buckets }: StoreSettings,
  server: MysqlServer,
): SchemaDialect {
  return {
    sql: setupSql(names, { schema, prefix }),
    buckets: jsonRows(Array.from({ length: buckets }, (_, bucket) => [bucket])),
    codes: { noColumn: [1054], noRight: [1142, 1143] }, // a right on the table, on a column
    checkServer: (ordering) => server.check(ordering),
    // One session, which holds the lock. Its transaction ends with the first table.
    inTurn: (work) =>
      database.connection('admin').transaction((tx) => {
        const ask = async (sql: string, values: readonly unknown[]): Promise<unknown> =>
          (await rowsOf(tx, sql, ...values))[0]?.[0];
        return oneAtATime(ask, { schema, prefix }, () => work(tx));
      }),
    up: mysqlSchemaUp,
    compare: compareSchema,
    // What a strict order needs can be added; the rest stands in the tables' defaults.
    wayOut: (different, { ordering }, stored) =>
      different.join() === 'ordering' && ordering === 'strict' && stored.get('ordering') === 'key'
        ? `drain the outbox, stop every process that enqueues or publishes, run the up of outboxSql() with the new settings (it may run again), and run: update ${names.meta} set value = 'strict' where name = 'ordering'`
        : undefined,
  };
}

type Place = Pick<StoreSettings, 'schema' | 'prefix'>;

function setupSql({ leases, instances, meta }: TableNames, { schema, prefix }: Place): SchemaDialect['sql'] {
  const tables = TABLE_NAMES.map((table) => `'${prefix}${table}'`).join(', ');
  const perBucket = `from ${jsonTable({ b: 'smallint' })} where true on duplicate key update transport = transport`;
  return {
    tables: statement(
      undefined,
      `select substr(table_name, ${prefix.length + 1}) from information_schema.tables
      where table_schema = coalesce(?, database()) and table_type = 'BASE TABLE' and table_name in (${tables})`,
    ).bind(schema ?? null),
    transportName: 'cast(name as char character set utf8mb4)',
    lockTransports: statement(undefined, `select value from ${meta} where name = 'version' for update`),
    addLeases: statement(undefined, `insert into ${leases} (transport, bucket) select ?, k.b ${perBucket}`),
    restoreLeases: statement(
      undefined,
      `insert into ${leases} (transport, bucket, epoch, expires_at)
      select ?, k.b, unix_timestamp(current_timestamp()), coalesce((select max(i.expires_at) from ${instances} i
        where i.expires_at > utc_timestamp(6)), '1970-01-01 00:00:00') ${perBucket}`,
    ),
  };
}
