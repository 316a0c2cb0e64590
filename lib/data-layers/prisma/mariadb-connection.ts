import type { SqlResult } from '../../store/executor.js';
import type { Sql } from '../../store/sql.js';
import { isInTransaction } from '../../transaction/sql-boundary.js';
import { withoutStatement } from '../drivers/mysql-connection.js';

/** What we use of a connection of the driver mariadb: the one behind those that its pool hands out. */
export interface Connection {
  /** Set anew whenever the state of the connection changes. */
  addCommand(command: Command, expectsAnswer: boolean): void;
  query(command: object, resolve: (result: unknown) => void, reject: (error: Error) => void): void;
  isValid(): boolean;
  readonly info: { readonly status?: number };
  readonly opts: Readonly<Record<string, unknown>>;
}
/** A statement, or something else that the server is asked for. */
export interface Command {
  readonly sql?: string;
  resolve(result: unknown): void;
  reject(error: Error): void;
  once(event: 'end', listener: () => void): unknown;
}
/** What commands other than statements are written of: a statement is prepared before it is executed. */
const TEXTS: Readonly<Record<string, string>> = { Prepare: '', Ping: '', Reset: 'rollback', ChangeUser: 'rollback' };
export const textOf = (command: Command): string => TEXTS[command.constructor.name] ?? command.sql ?? '';
export const hasNoAnswer = (command: Command): boolean => command.constructor.name === 'ClosePrepare';

interface DriverError extends Error {
  readonly sqlMessage?: string;
  readonly errno: number;
  readonly code: string;
  readonly sqlState: string | null;
  readonly fatal: boolean;
}

/** As mysql2 reads, whatever the application's connections are told. */
const AS_WE_READ = {
  ...{ rowsAsArray: true, nestTables: false, metaAsArray: false, namedPlaceholders: false, typeCast: undefined },
  ...{ supportBigNumbers: true, checkNumberRange: false, bitOneIsBoolean: false, logParam: false },
};

/** Runs a statement of ours. */
export function runOnMariadb(connection: Connection, { statement, values }: Sql): Promise<SqlResult> {
  return new Promise((resolve, reject) => {
    const answered = (result: unknown): void => {
      if (Array.isArray(result)) return resolve({ rows: result as unknown[][], affected: result.length });
      const { affectedRows = 0 } = result as { affectedRows?: number };
      resolve({ rows: [], affected: affectedRows, inTransaction: isInTransaction(connection.info.status) });
    };
    connection.query(literal(statement.strings, values), answered, (error) =>
      reject(withoutValues(error as DriverError)),
    );
  });
}

/** The driver escapes bytes with backslashes, which mean nothing with `NO_BACKSLASH_ESCAPES`: they are written as mysql2 does. */
function literal([first = '', ...strings]: readonly string[], values: readonly unknown[]): object {
  const bytes = values.map((value) => (Buffer.isBuffer(value) ? `x'${value.toString('hex')}'` : '?'));
  const sql = strings.reduce((text, part, i) => `${text}${bytes[i]}${part}`, first);
  return { sql, values: values.filter((value) => !Buffer.isBuffer(value)), opts: AS_WE_READ };
}

/** The driver puts the statement with its values into the text, and a state of the server's on errors of its own. */
function withoutValues({ message, sqlMessage, errno, code, sqlState, fatal }: DriverError): Error {
  const isOwn = errno > 45_000 && errno < 46_000;
  const error = Object.assign(new Error(sqlMessage ?? message), { errno, code, fatal });
  return withoutStatement(isOwn || sqlState === null ? error : Object.assign(error, { sqlState }));
}
