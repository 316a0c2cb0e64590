import { randomBytes } from 'node:crypto';
import type { OutboxDispatcher, OutboxService, TransportDefinition } from '../../index.js';
import type * as Outbox from '../../index.js';
import type * as Migrations from '../../data-layers/tables/index.js';
import { loadPackage } from '../connect/packages.js';
import { tablesOf, type Reached } from '../connect/reach.js';
import { createUnstarted, findIn } from '../connect/unstarted.js';
import { CliError, EXIT } from '../exit-code.js';

/** Sessions of the writers. */
export const MOST_WRITERS = 8;
/** Of PostgreSQL; of MariaDB and MySQL: a schema, a table, a statement that this login may not have. */
const NO_RIGHT: ReadonlySet<unknown> = new Set(['42501', 'ER_DBACCESS_DENIED_ERROR', 'ER_TABLEACCESS_DENIED_ERROR']);

/** An outbox of its own, with tables that nobody else has. */
export interface Scratch {
  readonly service: OutboxService;
  readonly dispatcher: OutboxDispatcher;
  readonly db: Migrations.TablesDatabase;
  /** Messages that its transport was given. */
  readonly published: () => number;
  /** Drops the tables, and closes. */
  remove(): Promise<void>;
}

/** A prefix that no outbox has. */
export const scratchPrefix = (): string => `bench_${randomBytes(6).toString('hex')}_`;

/** @throws CliError exit code 1: this login may not make tables. Nothing is left then */
export async function openScratch(reached: Reached, prefix: string, timeout: number): Promise<Scratch> {
  const { outbox, dataLayer, folder, place } = reached;
  const { schema, pooler } = place;
  const db = await tablesOf({ dataLayer, folder, place: { schema, pooler, prefix } }, timeout);
  const tables = { prefix, ...(schema === undefined ? {} : { schema }) };
  const { stepsOf } = await loadPackage<typeof Migrations>('nestjs-outbox/tables', folder);
  const drop = (): Promise<void> => dropTables(stepsOf({ ...tables, dropUnpublished: true }), db);
  const close = (): Promise<unknown> => db.close().finally(() => reached.end());
  const { transport, published } = counting(outbox);
  try {
    const declared = outbox.OutboxModule.forRoot({
      transports: { default: transport },
      relay: 'manual',
      wakeUp: 'poll',
      logLevel: 'silent',
      database: { ...tables, setup: 'create', ...(pooler === undefined ? {} : { pooler }) },
      dataLayer,
    });
    const app = await createUnstarted({ module: class BenchModule {}, imports: [declared] }, folder, {
      mayRelay: true,
    });
    return {
      service: findIn(app, outbox.OutboxService) as OutboxService,
      dispatcher: findIn(app, outbox.OutboxDispatcher) as OutboxDispatcher,
      db,
      published,
      remove: () =>
        app
          .close()
          .then(drop)
          .finally(close)
          .then(() => {}),
    };
  } catch (error) {
    await drop().catch(() => {}); // where half of them were made
    await close().catch(() => {});
    throw codeOf(error) === undefined ? error : refusal(error);
  }
}

/** By the way back of the first step, which drops all of them. */
async function dropTables([first]: Migrations.Step[], db: Migrations.TablesDatabase): Promise<void> {
  const { dialect, schema } = db;
  await db.alone(async (session) => first?.run({ session, dialect, schema }, 'down'));
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
    const { code } = each as { code?: unknown };
    if (NO_RIGHT.has(code)) return code;
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
