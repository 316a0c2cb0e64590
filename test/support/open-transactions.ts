import { setTimeout as pause } from 'node:timers/promises';
import type { DataSource, QueryRunner } from 'typeorm';
import { transactionExecutor } from '../../lib/data-layers/typeorm/transaction.js';
import type { NewMessage } from '../../lib/outbox-message.js';
import { newMessage, type Harness } from './relay.js';
import type { DatabaseKind } from './services.js';

/** A transaction of the application that a test moves step by step. */
export class OpenTransaction {
  /** @internal */ static readonly open = new Set<OpenTransaction>();

  private constructor(
    readonly harness: Harness,
    readonly runner: QueryRunner,
  ) {}

  static async begin(harness: Harness): Promise<OpenTransaction> {
    const runner = harness.dataSource.createQueryRunner();
    await runner.startTransaction();
    const transaction = new OpenTransaction(harness, runner);
    OpenTransaction.open.add(transaction);
    return transaction;
  }

  /** One call with a message for each key; its payload is `text`. */
  async enqueue(text: string, keys: string | readonly string[], more: Partial<NewMessage> = {}): Promise<void> {
    const messages = [keys].flat().map((key) => newMessage({ key, payload: Buffer.from(text), ...more }));
    await this.harness.store.writer.insert(transactionExecutor(this.runner), messages);
  }
  query(sql: string): Promise<unknown> {
    return this.runner.query(sql);
  }
  commit(): Promise<void> {
    return this.end(this.runner.commitTransaction());
  }
  rollback(): Promise<void> {
    return this.end(this.runner.rollbackTransaction());
  }

  /** So that nobody waits for the locks of what is left open. */
  static async endAll(): Promise<void> {
    for (const transaction of this.open) await transaction.rollback().catch(() => undefined);
  }

  /** @internal */ end(work: Promise<void>): Promise<void> {
    OpenTransaction.open.delete(this);
    return work.finally(() => this.runner.release());
  }
}

/** What is ready, as `key:payload`, in the order in which it will be published. */
export async function readyTexts({ database, dataSource }: Harness): Promise<string[]> {
  const rows = (await dataSource.query(
    database.kind === 'postgres'
      ? `select key, convert_from(payload, 'UTF8') as text from outbox_ready order by seq`
      : 'select cast(`key` as char) as `key`, cast(payload as char) as text from outbox_ready order by seq',
  )) as { key: string | null; text: string }[];
  return rows.map(({ key, text }) => `${key ?? ''}:${text}`);
}

interface Server {
  readonly dataSource: DataSource;
  readonly database: { readonly kind: DatabaseKind };
}

/** Whether it is still under way when the server says that somebody, or so many, wait for a lock. */
export async function waitsForLock(harness: Server, work: Promise<unknown>, count = 1): Promise<boolean> {
  let ended = false;
  const end = (): void => {
    ended = true;
  };
  work.then(end, end);
  const waits = harness.database.kind === 'postgres' ? waitsOnPostgres : waitsOnMariadb;
  while (!ended) {
    if ((await waits(harness)) >= count) return true;
    await pause(5);
  }
  return false;
}

async function waitsOnPostgres({ dataSource }: Server): Promise<number> {
  const sql = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  return ((await dataSource.query(sql)) as unknown[]).length;
}

/** As of now: the tables of the information schema are a copy, which is not made anew while it is read often. */
async function waitsOnMariadb({ dataSource }: Server): Promise<number> {
  const [{ Status }] = (await dataSource.query('show engine innodb status')) as [{ Status: string }];
  const [, ...transactions] = Status.split('---TRANSACTION');
  const waiting = transactions.flatMap((text) =>
    text.includes('LOCK WAIT') ? [/thread id (\d+)/.exec(text)?.[1]] : [],
  );
  const ours = (await dataSource.query(
    'select id from information_schema.processlist where db = database()',
  )) as readonly { id: string }[];
  return ours.filter(({ id }) => waiting.includes(String(id))).length;
}
