import { OutboxConfigurationError } from '../../outbox.errors.js';

export type Dialect = 'postgres' | 'mysql';

/** What we use of a DataSource. */
interface Connected {
  readonly options: { readonly type: string };
  readonly driver: { readonly schema?: string | undefined; readonly database?: string | undefined };
}
const DIALECTS: Readonly<Record<string, Dialect>> = { postgres: 'postgres', mysql: 'mysql', mariadb: 'mysql' };

/** The only place that asks for a DataSource's type. */
export function dialectOf({ options: { type } }: Pick<Connected, 'options'>): Dialect {
  const dialect = DIALECTS[type];
  if (dialect !== undefined) return dialect;
  throw new OutboxConfigurationError('UNSUPPORTED_DATABASE', `A DataSource of type ${type} cannot hold an outbox.`, {
    hint: `Use one of: ${Object.keys(DIALECTS).join(', ')}.`,
  });
}

/**
 * TypeORM asks the server for both when it connects. It is quoted wherever it stands, so it may be any name; but a `?` in a
 * statement is a parameter.
 */
export function connectionSchema(dataSource: Connected): string | undefined {
  const { schema, database } = dataSource.driver;
  const name = (dialectOf(dataSource) === 'postgres' ? schema : database) ?? undefined;
  if (name?.includes('?') !== true) return name;
  throw new OutboxConfigurationError('INVALID_OPTIONS', `The connection's schema is ${JSON.stringify(name)}.`, {
    hint: 'A name with ? cannot hold an outbox: set database.schema to another one.',
  });
}
