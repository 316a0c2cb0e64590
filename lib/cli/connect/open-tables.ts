import type { DynamicModule } from '@nestjs/common';
import type * as Outbox from '../../index.js';
import type { OutboxOptions } from '../../index.js';
import { connectionSchema, dialectOf, namesOf } from '../../data-layers/typeorm/dialect.js';
import { CliError, EXIT, refuseUsage } from '../exit-code.js';
import type { Opened } from './opened.js';
import { loadPackage } from './packages.js';
import type { DatabaseSource } from './settings.js';
import { createUnstarted, findIn } from './unstarted.js';

/** What we use of TypeORM's DataSource. */
export interface TablesDataSource {
  readonly options: { readonly type: string };
  readonly driver: { readonly schema?: string; readonly database?: string };
  initialize(): Promise<TablesDataSource>;
  query(sql: string): Promise<Record<string, unknown>[]>;
  destroy(): Promise<void>;
}

/** Connects. @throws what TypeORM throws */
export async function openDataSource({ options, folder }: DatabaseSource): Promise<TablesDataSource> {
  const { DataSource } = await loadPackage<{ DataSource: new (options: object) => TablesDataSource }>(
    'typeorm',
    folder,
  );
  // Entities and migrations of the application are none of our business.
  return new DataSource({
    ...options,
    entities: [],
    migrations: [],
    subscribers: [],
    synchronize: false,
    dropSchema: false,
    migrationsRun: false,
    logging: false,
  }).initialize();
}

/** An outbox as its tables say it is. */
export async function openTables(source: DatabaseSource, name: string, checked: boolean): Promise<Opened> {
  const outbox = await loadPackage<typeof Outbox>('nestjs-outbox', source.folder);
  let dataSource = await openDataSource(source);
  try {
    const schema = await placed(dataSource, source);
    if (schema !== undefined) {
      await dataSource.destroy();
      dataSource = await openDataSource({ ...source, options: { ...source.options, schema } }); // whatever its name
    }
    const options = await optionsOf(dataSource, source, checked);
    const declared = outbox.OutboxModule.forRoot({ ...options, name, dataSource: dataSource as never });
    const module = { module: class CliModule {}, imports: [declared] } satisfies DynamicModule;
    const app = await createUnstarted(module, source.folder);
    return {
      outbox,
      get: (token) => findIn(app, token),
      close: () => app.close().finally(() => dataSource.destroy()),
    };
  } catch (error) {
    await dataSource.destroy().catch(() => {});
    throw error;
  }
}

/** Nobody names a schema, and the database has one outbox of this prefix: it is meant, whatever schema it is in. PostgreSQL. */
async function placed(dataSource: TablesDataSource, source: DatabaseSource): Promise<string | undefined> {
  if ((source.schema ?? source.options['schema']) !== undefined || dialectOf(dataSource) !== 'postgres')
    return undefined;
  const outboxes = await outboxesOf(dataSource);
  const names = outboxes.filter(({ prefix }) => prefix === source.prefix).map(({ place }) => place);
  if (names.length === 0 || names.includes(String(connectionSchema(dataSource)))) return undefined;
  if (names.length === 1) return names[0];
  return refuseUsage(`Several schemas have an outbox: ${names.slice(0, 10).join(', ')}. Give --schema.`);
}

async function optionsOf(
  dataSource: TablesDataSource,
  { schema, prefix }: DatabaseSource,
  checked: boolean,
): Promise<OutboxOptions> {
  const tables = namesOf(dataSource, { schema, prefix });
  const meta = new Map((await rowsOf(dataSource, tables.meta)).map(({ name, value }) => [String(name), String(value)]));
  const names = (await rowsOf(dataSource, tables.transports)).map(({ name }) => String(name));
  if (names.length === 0)
    throw new CliError(
      EXIT.nothing,
      'The outbox has no transport yet: no process with it has started on this database.',
    );
  return {
    transports: Object.fromEntries(names.map((transport) => [transport, UNREACHABLE])),
    defaultTransport: names.includes('default') ? 'default' : (names[0] as string),
    relay: false,
    logLevel: 'silent',
    database: { prefix, ...(schema === undefined ? {} : { schema }), setup: checked ? 'check' : 'none' },
    buckets: Number(meta.get('buckets')),
    ordering: meta.get('ordering') as NonNullable<OutboxOptions['ordering']>,
    coordination: meta.get('coordination') as NonNullable<OutboxOptions['coordination']>,
  };
}

/** The command publishes nothing. */
const UNREACHABLE = {
  kind: 'unknown',
  receipt: 'broker' as const,
  create(): never {
    throw new Error('The command line publishes nothing.');
  },
};

async function rowsOf(dataSource: TablesDataSource, table: string): Promise<Record<string, unknown>[]> {
  try {
    return await dataSource.query(`select * from ${table} order by 1`);
  } catch (error) {
    if (!isMissing(error)) throw error;
    const found = (await outboxesOf(dataSource)).slice(0, 3);
    const others = found.map(({ place, prefix }) => `--schema ${place} --prefix ${prefix}`);
    const way = others.length === 0 ? 'Make' : `There are such tables with ${others.join(', with ')}. Or make`;
    const text = `The table ${table} is not there. ${way} it with npx nestjs-outbox migrate upgrade.`;
    throw new CliError(EXIT.failed, text, { cause: error });
  }
}

/** Of a table, or of what it is in. */
export const isMissing = (error: unknown): boolean =>
  ['42P01', '3F000', 'ER_NO_SUCH_TABLE', 'ER_BAD_DB_ERROR'].includes(String(Object(error)['code']));

/** Those that this login sees, by one table of each. No function is called: others may have put theirs on the path. */
async function outboxesOf(dataSource: TablesDataSource): Promise<{ place: string; prefix: string }[]> {
  const rows = await dataSource.query(`select table_schema as place, table_name as name from information_schema.tables
    where table_name like '_%parked' order by 1, 2`);
  return rows.map(({ place, name }) => ({ place: String(place), prefix: String(name).slice(0, -'parked'.length) }));
}
