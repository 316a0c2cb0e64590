import { readFile } from 'node:fs/promises';
import { pathToFileURL } from 'node:url';
import { CliError, EXIT } from '../exit-code.js';

/** What a config file may say. It may hold secrets. */
export interface OutboxCliConfig {
  /** `postgres://…`, `mysql://…`, `mariadb://…`. */
  readonly url?: string;
  /** In place of `url`: options of TypeORM's DataSource. */
  readonly dataSource?: Readonly<Record<string, unknown>>;
  /** In place of both: the compiled file of the application's module, relative to the config file. */
  readonly module?: string;
  readonly export?: string;
  /** The name of the outbox. */
  readonly outbox?: string;
  readonly schema?: string;
  readonly prefix?: string;
  /** As `'30s'`. */
  readonly timeout?: string;
}
/** Each with the type of its value. */
export const CONFIG_FIELDS: Readonly<Record<string, 'string' | 'object'>> = {
  url: 'string',
  dataSource: 'object',
  module: 'string',
  export: 'string',
  outbox: 'string',
  schema: 'string',
  prefix: 'string',
  timeout: 'string',
};

/** @throws CliError exit code 2: it cannot be read. Its text may hold a secret, and is not repeated. */
export async function readConfig(file: string): Promise<unknown> {
  try {
    if (file.endsWith('.json')) return JSON.parse((await readFile(file, 'utf8')).replace(/^\ufeff/, '')) as unknown;
    const loaded = (await import(pathToFileURL(file).href)) as { default?: unknown };
    return loaded.default;
  } catch (error) {
    const why =
      error instanceof SyntaxError ? 'its syntax is wrong' : `it throws ${(error as Error)?.name ?? 'an error'}`;
    throw new CliError(EXIT.usage, `The config file ${file} cannot be read: ${why}.`, { cause: error });
  }
}
