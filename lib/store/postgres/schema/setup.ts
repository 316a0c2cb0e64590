import type { SqlDatabase } from '../../executor.js';
import { literal, TABLE_NAMES, type StoreSettings, type TableNames } from '../../names.js';
import type { SchemaDialect } from '../../schema/setup.js';
import { statement } from '../statement.js';
import { compareColumns, readColumns } from './check-columns.js';
import { compareObjects, compareSequence } from './check-objects.js';
import { checkOrigin } from './origin.js';
import { oneAtATime, postgresSchema } from './schema.js';
import { checkServer } from './server.js';
import { wayOut } from './way-out.js';

export function postgresSetup(
  database: SqlDatabase,
  names: TableNames,
  { prefix, buckets }: StoreSettings,
): SchemaDialect {
  return {
    sql: setupSql(names),
    buckets,
    codes: { noColumn: ['42703'], noRight: ['42501'] },
    checkServer: () => checkServer(database.connection('admin')),
    inTurn: (work) =>
      database.connection('admin').transaction(async (tx) => {
        await tx.run(statement(undefined, oneAtATime({ prefix })).bind());
        await work(tx);
      }),
    up: (definition) => postgresSchema(definition).up,
    compare: async (db, definition) => [
      ...(await compareSequence(db, names)), // others take their numbers from it
      ...compareColumns(await readColumns(db, names), names, definition),
      ...(await compareObjects(db, names, definition)),
    ],
    wayOut: (different, wanted, stored) => wayOut(different, wanted, stored, names),
    // Where nobody waits for a lock of operators and the cleaner: the first read waits for the answer.
    checkOrigin: () => checkOrigin(database.connection('read'), names),
  };
}

function setupSql(names: TableNames): SchemaDialect['sql'] {
  const { leases, instances, transports } = names;
  const tables = TABLE_NAMES.map((table) => `(${literal(table)}, ${literal(names[table])})`).join(', ');
  const perBucket = 'from generate_series(0, ?::int - 1) b on conflict do nothing';
  return {
    tables: statement(
      undefined,
      `select t.name from (values ${tables}) t(name, id) where to_regclass(t.id) is not null`,
    ).bind(),
    transportName: 'name',
    lockTransports: statement(undefined, `lock table ${transports} in share row exclusive mode`),
    addLeases: statement(undefined, `insert into ${leases} (transport, bucket) select ?::smallint, b ${perBucket}`),
    restoreLeases: statement(
      undefined,
      `insert into ${leases} (transport, bucket, epoch, expires_at)
       select ?::smallint, b, extract(epoch from clock_timestamp())::bigint,
         coalesce((select max(expires_at) from ${instances} where expires_at > clock_timestamp()), '-infinity') ${perBucket}`,
    ),
  };
}
