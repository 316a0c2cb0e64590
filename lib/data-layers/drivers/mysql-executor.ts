import type { SqlResult } from '../../store/executor.js';
import type { Sql } from '../../store/sql.js';
import { isInTransaction } from '../../transaction/sql-boundary.js';
import { withoutStatement, type MysqlClient } from './mysql-connection.js';

/** Whatever the application's connections are told: a function of theirs goes before a `typeCast` that is none. */
const AS_WE_READ = {
  rowsAsArray: true,
  nestTables: false,
  typeCast: (_: unknown, next: () => unknown) => next(),
} as const;

/** Runs a statement in the application's transaction, on its connection: past whatever logs the application's own. */
export function runOnMysql(client: unknown, { statement, values }: Sql): Promise<SqlResult> {
  return new Promise((resolve, reject) => {
    (client as MysqlClient).query({ ...AS_WE_READ, sql: statement.questionMarks, values }, (error, result) => {
      if (error !== null) reject(withoutStatement(error));
      else if (Array.isArray(result)) resolve({ rows: result as unknown[][], affected: result.length });
      else resolve(answerOf(result as MysqlHeader));
    });
  });
}

/** Of what returns no rows. */
interface MysqlHeader {
  affectedRows?: number;
  serverStatus?: number;
}
function answerOf({ affectedRows = 0, serverStatus }: MysqlHeader): SqlResult {
  return { rows: [], affected: affectedRows, inTransaction: isInTransaction(serverStatus) };
}
