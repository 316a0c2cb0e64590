import type { SqlExecutor, SqlResult } from './executor.js';
import { statement } from './sql.js';

export type Rows = SqlResult['rows'];

/** The answer to what is asked so seldom that nobody keeps its statement. */
export const rowsOf = async (db: SqlExecutor, text: string, ...values: readonly unknown[]): Promise<Rows> =>
  (await db.run(statement(undefined, text).bind(...values))).rows;
