import { OutboxConfigurationError } from '../../outbox.errors.js';

/** What differs between the servers, in one place. Everything else is SQL that both take. */
export interface MysqlCapabilities {
  readonly product: 'MariaDB' | 'MySQL';
  /** First release with all that is needed: json_table, SKIP LOCKED, expressions as defaults. */
  readonly since: readonly [major: number, minor: number];
  /** Session setting by which the server cancels a statement. MySQL's covers reads only. */
  readonly statementTimeout: (milliseconds: number) => string;
}

const MARIADB: MysqlCapabilities = {
  product: 'MariaDB',
  since: [10, 6],
  statementTimeout: (milliseconds) => `max_statement_time = ${milliseconds / 1000}`,
};
const MYSQL: MysqlCapabilities = {
  product: 'MySQL',
  since: [8, 0],
  statementTimeout: (milliseconds) => `max_execution_time = ${Math.ceil(milliseconds)}`,
};

/** @param version what `select version()` answers: `10.11.19-MariaDB-…`, `8.0.36`. */
export function capabilitiesOf(version: string): MysqlCapabilities {
  const capabilities = /mariadb/i.test(version) ? MARIADB : MYSQL;
  const [major = 0, minor = 0] = version.split('.').map((part) => Number.parseInt(part, 10));
  const [needMajor, needMinor] = capabilities.since;
  if (major > needMajor || (major === needMajor && minor >= needMinor)) return capabilities;
  throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', `The database is ${capabilities.product} ${version}.`, {
    hint: `The outbox needs MariaDB ${MARIADB.since.join('.')} or MySQL ${MYSQL.since.join('.')}, or later.`,
  });
}
