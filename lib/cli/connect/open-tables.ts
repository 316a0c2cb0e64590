import type { DynamicModule } from '@nestjs/common';
import type { TablesDatabase } from '../../data-layers/tables/index.js';
import type { OutboxOptions } from '../../index.js';
import { CliError, EXIT, refuseUsage } from '../exit-code.js';
import type { Opened } from './opened.js';
import { isMissing, reach, tablesOf } from './reach.js';
import type { DatabaseSource, Settings } from './settings.js';
import { createUnstarted, findIn } from './unstarted.js';

/** An outbox as its tables say it is. */
export async function openTables(
  source: DatabaseSource,
  { name, timeout }: Pick<Settings, 'name' | 'timeout'>,
  checked: boolean,
): Promise<Opened> {
  const { place, ...reached } = await reach(source);
  const { outbox, dataLayer, end } = reached;
  let db: TablesDatabase | undefined;
  try {
    db = await tablesOf({ ...reached, place }, timeout);
    const schema = await placed(db, source);
    if (schema !== undefined) {
      await db.close();
      Object.assign(dataLayer, { defaultSchema: schema }); // whatever its name
      db = await tablesOf({ ...reached, place }, timeout);
    }
    const declared = outbox.OutboxModule.forRoot({ ...(await optionsOf(db, source, checked)), name, dataLayer });
    const module = { module: class CliModule {}, imports: [declared] } satisfies DynamicModule;
    const app = await createUnstarted(module, source.folder);
    return { outbox, get: (token) => findIn(app, token), close: () => app.close().finally(end) };
  } catch (error) {
    void end().catch(() => {});
    throw error;
  } finally {
    void db?.close();
  }
}

/** Nobody names a schema, and the database has one outbox of this prefix: it is meant, whatever schema it is in. PostgreSQL. */
async function placed(db: TablesDatabase, source: DatabaseSource): Promise<string | undefined> {
  if ((source.schema ?? source.ownSchema) !== undefined || db.dialect !== 'postgres') return undefined;
  const names = (await outboxesOf(db)).filter(({ prefix }) => prefix === source.prefix).map(({ place }) => place);
  if (names.length === 0 || names.includes(String(db.schema))) return undefined;
  if (names.length === 1) return names[0];
  return refuseUsage(`Several schemas have an outbox: ${names.slice(0, 10).join(', ')}. Give --schema.`);
}

async function optionsOf(
  db: TablesDatabase,
  { schema, prefix }: DatabaseSource,
  checked: boolean,
): Promise<OutboxOptions> {
  const meta = new Map((await rowsOf(db, 'name, value', db.names.meta)) as [string, string][]);
  const names = (await rowsOf(db, 'name', db.names.transports)).map(([transport]) => String(transport));
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

async function rowsOf(db: TablesDatabase, columns: string, table: string): ReturnType<TablesDatabase['query']> {
  try {
    return await db.query(`select ${columns} from ${table} order by 1`);
  } catch (error) {
    if (!isMissing(error)) throw error;
    const found = (await outboxesOf(db)).slice(0, 3);
    const others = found.map(({ place, prefix }) => `--schema ${place} --prefix ${prefix}`);
    const way = others.length === 0 ? 'Make' : `There are such tables with ${others.join(', with ')}. Or make`;
    const text = `The table ${table} is not there. ${way} it with npx nestjs-outbox migrate upgrade.`;
    throw new CliError(EXIT.failed, text, { cause: error });
  }
}

/** Those that this login sees, by one table of each. */
async function outboxesOf(db: TablesDatabase): Promise<{ place: string; prefix: string }[]> {
  const rows = await db.query(`select table_schema, table_name from information_schema.tables
    where table_name like '_%parked' order by 1, 2`);
  return rows.map(([place, name]) => ({ place: String(place), prefix: String(name).slice(0, -'parked'.length) }));
}
