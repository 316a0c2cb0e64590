import type { SqlExecutor } from '../../executor.js';
import { UP_AGAIN, VIEW_COLUMNS } from './schema.js';
import { quoteWith, tableNames, type SchemaDefinition } from '../../names.js';
import { statement } from '../../sql.js';
import type { MysqlError } from '../errors.js';

const NO_SUCH_TABLE = 1146;
const NO_SUCH_COLUMN = 1054;

/**
 * Asked for its columns, and for no rows. A process without rights on it, which needs none, is told neither that it is there
 * nor that it is missing, here or in the information schema: that is no finding.
 */
export async function compareView(connection: SqlExecutor, definition: SchemaDefinition): Promise<string[]> {
  const { messages } = tableNames(definition, '`');
  const columns = VIEW_COLUMNS.map((name) => quoteWith('`', name)).join(', ');
  try {
    await connection.run(statement(undefined, `select ${columns} from ${messages} limit 0`).bind());
    return [];
  } catch (error) {
    const { errno, sqlState, fatal, message } = error as MysqlError;
    if (fatal === true || typeof sqlState !== 'string') throw error;
    if (errno === NO_SUCH_TABLE) return [`${messages} is missing ${UP_AGAIN}`];
    return errno === NO_SUCH_COLUMN ? [`${messages} is another one (${message}) ${UP_AGAIN}`] : [];
  }
}
