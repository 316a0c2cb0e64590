import { existsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { didYouMean } from '../../options/did-you-mean.js';
import { milliseconds } from '../../time/duration.js';
import { CONFIG_FIELDS, readConfig, type OutboxCliConfig } from './config-file.js';
import { refuseUsage } from '../exit-code.js';
import { isWait } from '../wait.js';

/** Where the outbox is. */
export interface Settings {
  /** The application's own module, or a database alone. */
  readonly source: ModuleSource | DatabaseSource;
  /** Of the outbox, where the application has several. */
  readonly name: string;
  /** Milliseconds for connecting, and for each answer. */
  readonly timeout: number;
}
export interface ModuleSource {
  readonly kind: 'module';
  /** Absolute. */
  readonly file: string;
  /** Which export of the file is the module. Default: `AppModule`, the default one, or the only class. */
  readonly exported: string | undefined;
}
export interface DatabaseSource {
  readonly kind: 'database';
  readonly dialect: 'postgres' | 'mysql';
  /** Of a pool of pg or mysql2. They hold secrets: never printed. */
  readonly options: Readonly<Record<string, unknown>>;
  /** PostgreSQL: in place of the connection's own schema. It may have any name. */
  readonly ownSchema?: string | undefined;
  /** Of an application with TypeORM: where its migrator writes down what it ran. */
  readonly writtenIn?: string | undefined;
  /** Absolute: packages are looked for from there. */
  readonly folder: string;
  /** Of the tables. Default: the connection's. */
  readonly schema: string | undefined;
  readonly prefix: string;
}

const CONFIG_NAMES = ['outbox.config.js', 'outbox.config.mjs', 'outbox.config.cjs', 'outbox.config.json'];
const DEFAULT_TIMEOUT = 30_000;
/** By the scheme of the URL, and by the type of a DataSource. */
const DIALECTS: Readonly<Record<string, DatabaseSource['dialect']>> = {
  postgres: 'postgres',
  postgresql: 'postgres',
  mysql: 'mysql',
  mariadb: 'mysql',
};

/** An option beats the environment, and that the config file. @throws CliError exit code 2 */
export async function readSettings(
  options: Readonly<Record<string, unknown>>,
  env: NodeJS.ProcessEnv,
  folder: string,
): Promise<Settings> {
  const text = (option: string): string | undefined => options[option] as string | undefined;
  const file = configFile(text('config') ?? set(env['OUTBOX_CONFIG']), folder);
  const config = file === undefined ? {} : checked(await readConfig(file), file);
  const places: readonly Place[] = [
    { module: text('module'), url: text('url'), from: 'The options', folder },
    { module: set(env['OUTBOX_MODULE']), url: set(env['OUTBOX_DATABASE_URL']), from: 'The environment', folder },
    { ...config, from: 'The config file', folder: file === undefined ? folder : dirname(file) },
  ];
  const place = places.find(({ module, url, dataSource }) => (module ?? url ?? dataSource) !== undefined);
  if (place === undefined) return nowhere();
  if (place.module !== undefined && (text('schema') ?? text('prefix')) !== undefined)
    refuseUsage('--schema and --prefix go with a database: a module has its own.');
  const schema = text('schema') ?? set(env['OUTBOX_SCHEMA']) ?? config.schema;
  const prefix = text('prefix') ?? set(env['OUTBOX_PREFIX']) ?? config.prefix;
  const timeout = (options['timeout'] as number | undefined) ?? milliseconds(config.timeout) ?? DEFAULT_TIMEOUT;
  return {
    source: sourceOf(place, { schema, prefix, timeout, exported: text('export') ?? config.export }),
    name: text('outbox') ?? config.outbox ?? 'default',
    timeout,
  };
}

interface Place extends Pick<OutboxCliConfig, 'dataSource'> {
  readonly module?: string | undefined;
  readonly url?: string | undefined;
  readonly from: string;
  readonly folder: string;
}

function sourceOf(
  { module, url, dataSource, from, folder }: Place,
  given: { schema: string | undefined; prefix: string | undefined; timeout: number; exported: string | undefined },
): Settings['source'] {
  if ([module, url, dataSource].filter((one) => one !== undefined).length > 1)
    refuseUsage(`${from} name more than one of module and database: give one.`.replace('file name ', 'file names '));
  const { schema, prefix = 'outbox_', timeout, exported } = given;
  if (module !== undefined) {
    const file = resolve(folder, module);
    if (statSync(file, { throwIfNoEntry: false })?.isFile() !== true)
      refuseUsage(`The module file ${file} is not there. Build the application first.`);
    return { kind: 'module', file, exported };
  }
  if (!PLAIN.test(prefix)) refuseUsage('The prefix must have lower-case letters, digits and _ only.');
  const database = dataSource === undefined ? ofUrl(url as string, timeout) : ofDataSource(dataSource);
  const rest = { kind: 'database', folder, prefix } as const;
  if (schema === undefined || PLAIN.test(schema)) return { ...rest, ...database, schema };
  if (database.dialect !== 'postgres' || schema === '')
    refuseUsage('The schema must have lower-case letters, digits and _ only. Another database is named by the URL.');
  // No option of an outbox has such a name: its application has it from the connection.
  return { ...rest, ...database, ownSchema: schema, schema: undefined };
}

const PLAIN = /^[a-z_][a-z0-9_]*$/;

type Connection = Pick<DatabaseSource, 'dialect' | 'options' | 'ownSchema' | 'writtenIn'>;

function ofUrl(url: string, timeout: number): Connection {
  // It may hold a password: it is not repeated.
  const dialect = DIALECTS[/^[a-z]+(?=:\/\/)/i.exec(url)?.[0].toLowerCase() ?? ''];
  if (dialect === undefined) refuseUsage('The database URL must begin with postgres://, mysql:// or mariadb://.');
  if (/%(?![\da-f]{2})/i.test(url)) refuseUsage('The database URL has a % that begins no escape: write it as %25.');
  if (!URL.canParse(url))
    refuseUsage('The database URL is no URL. In a password write / as %2F, # as %23, ? as %3F and @ as %40.');
  if (dialect === 'postgres') return { dialect, options: { connectionString: url, connectionTimeoutMillis: timeout } };
  return { dialect, options: { uri: url, connectTimeout: timeout } };
}

/** Those of TypeORM's DataSource that we read. */
interface TypeOrmOptions extends Partial<Record<'url' | 'username' | 'host' | 'database' | 'socketPath', string>> {
  readonly type?: string;
  readonly port?: number;
  readonly password?: unknown;
  readonly ssl?: unknown;
  readonly schema?: string;
  readonly migrationsTableName?: string;
  readonly extra?: object;
  readonly replication?: { readonly master: TypeOrmOptions };
}

/** What leads TypeORM's own connections to the server. */
function ofDataSource(dataSource: TypeOrmOptions): Connection {
  const dialect = DIALECTS[dataSource.type ?? ''];
  if (dialect === undefined) refuseUsage('The type of the dataSource must be postgres, mysql or mariadb.');
  const { replication, extra, schema: ownSchema, migrationsTableName: writtenIn = 'migrations' } = dataSource;
  const { url, username: user, host, port, database, password, ssl, socketPath } = replication?.master ?? dataSource;
  const all = { user, host, port, database, password, ssl };
  const options = dialect === 'postgres' ? { ...all, connectionString: url } : { ...all, uri: url, socketPath };
  return { dialect, options: { ...options, ...extra }, ownSchema, writtenIn };
}

function configFile(named: string | undefined, folder: string): string | undefined {
  if (named === undefined) return CONFIG_NAMES.map((name) => resolve(folder, name)).find((file) => existsSync(file));
  const file = resolve(folder, named);
  if (!existsSync(file)) refuseUsage(`The config file ${file} is not there.`);
  return file;
}

function checked(config: unknown, file: string): OutboxCliConfig {
  if (typeof config !== 'object' || config === null || Array.isArray(config))
    refuseUsage(`The config file ${file} must have an object as its default export.`);
  for (const [name, value] of Object.entries(config)) {
    const kind = Object.hasOwn(CONFIG_FIELDS, name) ? CONFIG_FIELDS[name] : undefined;
    if (kind === undefined) {
      const meant = didYouMean(name, Object.keys(CONFIG_FIELDS));
      refuseUsage(`The config file ${file} has '${name}'${meant === undefined ? '' : `. Did you mean '${meant}'?`}`);
    }
    if (value === null || (value !== undefined && typeof value !== kind))
      refuseUsage(`In the config file ${file} ${name} must be ${kind === 'object' ? 'an' : 'a'} ${kind}.`);
  }
  const { timeout } = config as OutboxCliConfig;
  if (timeout !== undefined && !isWait(milliseconds(timeout) ?? 0))
    refuseUsage(`In the config file ${file} timeout must be a duration such as '30s', and 1d at most.`);
  return config;
}

/** An empty variable is none. */
const set = (value: string | undefined): string | undefined => (value === '' ? undefined : value);

function nowhere(): never {
  refuseUsage(
    'No database is named. Set OUTBOX_DATABASE_URL, write outbox.config.json, or give --module dist/app.module.js.',
  );
}
