import { randomBytes } from 'node:crypto';
import type { OutboxDispatcher, OutboxService, TransportDefinition } from '../../index.js';
import type * as Outbox from '../../index.js';
import type * as TypeOrmEntry from '../../data-layers/typeorm/index.js';
import { openDataSource, type TablesDataSource } from '../connect/open-tables.js';
import { loadPackage } from '../connect/packages.js';
import type { DatabaseSource } from '../connect/settings.js';
import { createUnstarted, findIn } from '../connect/unstarted.js';
import { CliError, EXIT } from '../exit-code.js';
import type { MigratingDataSource } from '../migrate/tables.js';

/** Sessions of the writers. */
export const MOST_WRITERS = 8;
/** Of PostgreSQL; of MariaDB and MySQL: a schema, a table, a statement that this login may not have. */
const NO_RIGHT: ReadonlySet<unknown> = new Set(['42501', 'ER_DBACCESS_DENIED_ERROR', 'ER_TABLEACCESS_DENIED_ERROR']);

/** An outbox of its own, with tables that nobody else has. */
export interface Scratch {
  readonly service: OutboxService;
  readonly dispatcher: OutboxDispatcher;
  readonly dataSource: TablesDataSource;
  /** Messages that its transport was given. */
  readonly published: () => number;
  /** Drops the tables, and closes. */
  remove(): Promise<void>;
}

/** A prefix that no outbox has. */
export const scratchPrefix = (): string => `bench_${randomBytes(6).toString('hex')}_`;

/** @throws CliError exit code 1: this login may not make tables. Nothing is left then */
export async function openScratch(source: DatabaseSource, prefix: string): Promise<Scratch> {
  const { folder, schema } = source;
  const [outbox, { outboxMigrations }] = await Promise.all([
    loadPackage<typeof Outbox>('nestjs-outbox', folder),
    loadPackage<typeof TypeOrmEntry>('nestjs-outbox/typeorm', folder),
  ]);
  const dataSource = await openDataSource({ ...source, options: { ...source.options, poolSize: MOST_WRITERS + 1 } });
  const tables = { prefix, ...(schema === undefined ? {} : { schema }) };
  const drop = (): Promise<void> => dropTables(outboxMigrations({ ...tables, dropUnpublished: true }), dataSource);
  const { transport, published } = counting(outbox);
  try {
    const declared = outbox.OutboxModule.forRoot({
      transports: { default: transport },
      relay: 'manual',
      wakeUp: 'poll',
      logLevel: 'silent',
      database: { ...tables, setup: 'create' },
      dataSource: dataSource as never,
    });
    const app = await createUnstarted({ module: class BenchModule {}, imports: [declared] }, folder, {
      mayRelay: true,
    });
    return {
      service: findIn(app, outbox.OutboxService) as OutboxService,
      dispatcher: findIn(app, outbox.OutboxDispatcher) as OutboxDispatcher,
      dataSource,
      published,
      remove: () =>
        app
          .close()
          .then(drop)
          .finally(() => dataSource.destroy()),
    };
  } catch (error) {
    await drop().catch(() => {}); // where half of them were made
    await dataSource.destroy().catch(() => {});
    throw codeOf(error) === undefined ? error : refusal(error);
  }
}

/** By the way back of the first migration, which drops all of them. */
async function dropTables(
  [First]: ReturnType<typeof TypeOrmEntry.outboxMigrations>,
  dataSource: TablesDataSource,
): Promise<void> {
  if (First === undefined) return;
  const runner = (dataSource as TablesDataSource & Pick<MigratingDataSource, 'createQueryRunner'>).createQueryRunner(
    'master',
  );
  await new First().down(runner).finally(() => runner.release());
}

/** A transport that costs nothing. */
function counting({ OutboxTransport, PUBLISHED }: typeof Outbox): {
  transport: TransportDefinition;
  published: () => number;
} {
  let count = 0;
  class Counting extends OutboxTransport {
    override readonly receipt = 'broker';
    override async publish(batch: readonly unknown[]) {
      count += batch.length;
      return batch.map(() => PUBLISHED);
    }
  }
  return {
    transport: { kind: 'bench', receipt: 'broker', create: () => new Counting() },
    published: () => count,
  };
}

/** Of an error, or of what caused it. */
function codeOf(error: unknown): unknown {
  for (let each = error; each instanceof Error; each = each.cause) {
    const { code, driverError } = each as { code?: unknown; driverError?: { code?: unknown } };
    for (const one of [code, driverError?.code]) if (NO_RIGHT.has(one)) return one;
  }
  return undefined;
}

function refusal(cause: unknown): CliError {
  return new CliError(
    EXIT.failed,
    'bench makes tables of its own, and this login may not make tables here. Give it another login, or a database for tries.',
    { cause },
  );
}
