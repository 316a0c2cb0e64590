import type { DataSource } from 'typeorm';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { SqlDatabase } from '../../store/executor.js';
import type { StoreSettings } from '../../store/names.js';
import { openMysqlDatabase } from './mysql.js';
import { openPostgresDatabase } from './postgres.js';

export type Dialect = 'postgres' | 'mysql';

/** A kind of database, as TypeORM reaches it. The only place that asks for a DataSource's type. */
interface DatabaseKind {
  readonly dialect: Dialect;
  open(dataSource: DataSource, settings: StoreSettings): SqlDatabase;
}
const POSTGRES: DatabaseKind = { dialect: 'postgres', open: openPostgresDatabase };
const MYSQL: DatabaseKind = { dialect: 'mysql', open: openMysqlDatabase };
const KINDS: Readonly<Record<string, DatabaseKind>> = { postgres: POSTGRES, mysql: MYSQL, mariadb: MYSQL };

function kindOf(dataSource: DataSource): DatabaseKind {
  const { type } = dataSource.options;
  const kind = KINDS[type];
  if (kind !== undefined) return kind;
  throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', `A DataSource of type ${type} cannot hold an outbox.`, {
    hint: `Use one of: ${Object.keys(KINDS).join(', ')}.`,
  });
}

export function dialectOf(dataSource: DataSource): Dialect {
  return kindOf(dataSource).dialect;
}

export function openDatabase(dataSource: DataSource, settings: StoreSettings): SqlDatabase {
  return kindOf(dataSource).open(dataSource, settings);
}

/**
 * TypeORM asks the server for both when it connects. It is quoted wherever it stands, so it may be any name; but a `?` in a
 * statement is a parameter.
 */
export function connectionSchema(dataSource: DataSource): string | undefined {
  const { schema, database } = dataSource.driver;
  const name = (dialectOf(dataSource) === 'postgres' ? schema : database) ?? undefined;
  if (name?.includes('?') !== true) return name;
  throw new OutboxConfigurationError('INVALID_OPTIONS', `The connection's schema is ${JSON.stringify(name)}.`, {
    hint: 'A name with ? cannot hold an outbox: set database.schema to another one.',
  });
}
