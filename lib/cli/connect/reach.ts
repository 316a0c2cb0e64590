import type * as Outbox from '../../index.js';
import type * as Tables from '../../data-layers/tables/index.js';
import type { OutboxDataLayer } from '../../index.js';
import { loadPackage } from './packages.js';
import type { DatabaseSource } from './settings.js';

/** A database as an outbox reaches it. */
export interface Reached {
  /** The package as the application has it. */
  readonly outbox: typeof Outbox;
  readonly dataLayer: OutboxDataLayer;
  readonly dialect: DatabaseSource['dialect'];
  /** Absolute: packages are looked for from there. */
  readonly folder: string;
  readonly place: Tables.Place;
  /** Of an application with TypeORM: where its migrator writes down what it ran. */
  readonly writtenIn: string | undefined;
  /** Ends what it has connected. */
  end(): Promise<unknown>;
}

/** By the driver of the application. Nothing is asked yet. @throws CliError exit code 1: the driver is not installed */
export async function reach(source: DatabaseSource): Promise<Reached> {
  const { dialect, options, folder, schema, prefix, ownSchema, writtenIn } = source;
  const outbox = await loadPackage<typeof Outbox>('nestjs-outbox', folder);
  const { dataLayer, end } = await LAYERS[dialect](folder, options);
  // It asks for none that it has.
  if (ownSchema !== undefined) Object.assign(dataLayer, { defaultSchema: ownSchema });
  return { outbox, dataLayer, dialect, folder, place: { schema, prefix }, writtenIn, end };
}

type Layer = (pool: object) => OutboxDataLayer;
type Connect = (folder: string, options: object) => Promise<Pick<Reached, 'dataLayer' | 'end'>>;
const LAYERS: Readonly<Record<DatabaseSource['dialect'], Connect>> = {
  async postgres(folder, options) {
    const { default: pg } = await loadPackage<{ default: typeof import('pg') }>('pg', folder);
    const { pgLayer } = await loadPackage<{ pgLayer: Layer }>('nestjs-outbox/pg', folder);
    const pool = new pg.Pool(options).on('error', () => {}); // whoever asks next is told
    return { dataLayer: pgLayer(pool), end: () => pool.end() };
  },
  async mysql(folder, options) {
    const { default: mysql2 } = await loadPackage<{ default: typeof import('mysql2') }>('mysql2', folder);
    const { mysql2Layer } = await loadPackage<{ mysql2Layer: Layer }>('nestjs-outbox/mysql2', folder);
    const pool = mysql2.createPool(options);
    return { dataLayer: mysql2Layer(pool), end: () => pool.promise().end() };
  },
};

/** Its tables, read and changed past the store of the outbox. @param timeout milliseconds for connecting */
export async function tablesOf(
  { dataLayer, folder, place }: Pick<Reached, 'dataLayer' | 'folder' | 'place'>,
  timeout: number,
): Promise<Tables.TablesDatabase> {
  const { openTablesDatabase } = await loadPackage<typeof Tables>('nestjs-outbox/tables', folder);
  return openTablesDatabase(dataLayer, place, timeout);
}

/** Of a table, or of what it is in. */
export const isMissing = (error: unknown): boolean =>
  ['42P01', '3F000', 'ER_NO_SUCH_TABLE', 'ER_BAD_DB_ERROR'].includes(String(Object(error)['code']));
