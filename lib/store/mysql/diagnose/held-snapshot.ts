import type { SqlConnection, SqlResult } from '../../executor.js';
import { LOOK_TIMEOUT, type HeldSnapshotReport } from '../../diagnose/diagnose-store.js';
import type { TableNames } from '../../names.js';
import { statement, type Statement } from '../../sql.js';
import type { MysqlCapabilities } from '../capabilities.js';

/**
 * The oldest transactions, and with them this one, by which a login that sees none is told from a server that has none. A
 * snapshot is held by those that read repeatably, and by others as long as a statement runs.
 */
function look({ selectWithin }: MysqlCapabilities): Statement {
  return statement(
    undefined,
    selectWithin(
      LOOK_TIMEOUT,
      `t.trx_mysql_thread_id, p.user, p.command, t.trx_id,
       timestampdiff(second, convert_tz(t.trx_started, 'SYSTEM', @@session.time_zone), now()),
       t.trx_mysql_thread_id <> connection_id()
         and (t.trx_isolation_level in ('REPEATABLE READ', 'SERIALIZABLE') or t.trx_query is not null)
     from information_schema.innodb_trx t left join information_schema.processlist p on p.id = t.trx_mysql_thread_id
     where t.trx_mysql_thread_id > 0 order by t.trx_started limit 100`,
    ),
  );
}

/** `ER_SPECIFIC_ACCESS_DENIED_ERROR` */
function noneIfDenied(error: unknown): Pick<SqlResult, 'rows'> {
  if ((error as { errno?: unknown }).errno === 1227) return { rows: [] };
  throw error;
}

export async function heldSnapshot(
  connection: SqlConnection,
  names: TableNames,
  capabilities: MysqlCapabilities,
): Promise<HeldSnapshotReport> {
  const { rows } = await connection
    .transaction(async (tx) => {
      await tx.run(statement(undefined, `select 1 from ${names.meta} limit 1`).bind()); // before it the transaction is none
      return tx.run(look(capabilities).bind());
    })
    .catch(noneIfDenied);
  if (rows.length === 0) return { needs: 'PROCESS' };
  const held = rows.find((row) => Number(row[5]) === 1);
  if (held === undefined) return undefined;
  const [thread, user, command, transaction, age] = held as readonly (string | number | null)[];
  return {
    server: capabilities.product,
    holder: `session ${thread}`,
    details: [user, command].filter((each) => each !== null && each !== '').map(String),
    end: `kill ${thread};`,
    transaction: `${thread} ${transaction}`,
    age: Number(age) * 1000,
    dead: undefined,
  };
}
