import { setTimeout as pause } from 'node:timers/promises';
import { DataSource, type QueryRunner } from 'typeorm';
import { transactionExecutor } from '../../lib/data-layers/typeorm/transaction.js';
import { PUBLISHED } from '../../lib/index.js';
import { newMessage, ScriptedTransport, type Harness } from './relay.js';

/** Of every key its messages, by id. */
export type Orders = ReadonlyMap<string, readonly string[]>;

/** Where the server itself wrote down in which order transactions committed: the write-ahead log, the binary log. */
export interface CommitLog {
  /** What was inserted into `truth`, in the order of the commits. */
  read(): Promise<Orders>;
  close(): Promise<void>;
}

const ROW = /'([0-9a-f-]{36})'.*?'(k\d+)'/g;

function orders(texts: readonly string[]): Orders {
  const found = new Map<string, string[]>();
  for (const [, id, key] of texts.flatMap((text) => [...text.matchAll(ROW)])) {
    const ids = found.get(key as string) ?? [];
    ids.push(id as string);
    found.set(key as string, ids);
  }
  return found;
}

/** Its server must run with `wal_level=logical`. */
async function openWriteAheadLog(db: DataSource): Promise<CommitLog> {
  const slot = `truth_${process.pid}_${Date.now()}`;
  await db.query('create table truth (id text, k text)');
  await db.query(`select pg_create_logical_replication_slot('${slot}', 'test_decoding')`);
  return {
    async read() {
      const rows = (await db.query(
        `select data from pg_logical_slot_peek_changes('${slot}', null, null) where data like 'table public.truth: INSERT%'`,
      )) as { data: string }[];
      return orders(rows.map(({ data }) => data));
    },
    close: () => db.query(`select pg_drop_replication_slot('${slot}')`),
  };
}

/** Events that hold a statement's text: of MariaDB, of MySQL, and of both. */
const TEXTS = new Set(['Annotate_rows', 'Rows_query', 'Query']);

/** Its server must run with `log_bin`, which it writes the texts of the statements into, too. */
async function openBinaryLog(db: DataSource): Promise<CommitLog> {
  await db.query('create table truth (id char(36), k varchar(20)) engine = innodb');
  const [{ File, Position }] = (await db.query('show master status')) as [{ File: string; Position: string }];
  return {
    async read() {
      const rows = (await db.query(`show binlog events in '${File}' from ${Position}`)) as {
        Event_type: string;
        Info: string;
      }[];
      const texts = rows.filter(({ Event_type }) => TEXTS.has(Event_type));
      return orders(texts.map(({ Info }) => Info).filter((info) => info.includes('insert into truth')));
    },
    close: () => Promise.resolve(),
  };
}

export function openCommitLog(harness: Harness): Promise<CommitLog> {
  return harness.database.kind === 'postgres'
    ? openWriteAheadLog(harness.dataSource)
    : openBinaryLog(harness.dataSource);
}

/** What a relay publishes of each key, in that order. */
export class Sightings {
  readonly transport = new ScriptedTransport();
  readonly found = new Map<string, string[]>();
  count = 0;

  constructor() {
    this.transport.behave = ({ id, key }) => {
      const ids = this.found.get(key as string) ?? [];
      ids.push(id);
      this.found.set(key as string, ids);
      this.count += 1;
      return PUBLISHED;
    };
  }
}

/** Neighbours of one key that come the other way round than in the log. */
export function inversions(log: Orders, seen: Orders): number {
  let wrong = 0;
  for (const [key, ids] of log) {
    const places = new Map(ids.map((id, place) => [id, place]));
    const seenPlaces = (seen.get(key) ?? []).map((id) => places.get(id) ?? -1);
    wrong += seenPlaces.filter((place, i) => i > 0 && place < (seenPlaces[i - 1] as number)).length;
  }
  return wrong;
}

export interface Workload {
  readonly writers?: number;
  /** Of each writer. */
  readonly transactions?: number;
  readonly keys?: number;
}
export interface Written {
  readonly committed: number;
  /** Transactions that failed and were made again, by the code of the error. */
  readonly failed: Readonly<Record<string, number>>;
}

const chance = (share: number): boolean => Math.random() < share;
const upTo = (most: number): number => 1 + Math.floor(Math.random() * most);

/** Deadlocks: on MariaDB and MySQL allowed, on PostgreSQL counted. MySQL has them at the INSERT, too, behind a savepoint that was taken back. */
const RETRYABLE = new Set(['TRANSACTION_CONFLICT', 'ER_LOCK_DEADLOCK', '40P01']);

/**
 * Transactions that overlap: they enqueue first, one or several keys at once or one after the other, then dawdle, then
 * note in `truth` what they will have enqueued. Some take back a savepoint, some everything.
 */
export async function writeOverlapping(harness: Harness, workload: Workload = {}): Promise<Written> {
  const { writers = 12, transactions = 25, keys = 3 } = workload;
  const source = new DataSource({ ...harness.database.options, poolSize: writers } as never);
  const application = await source.initialize();
  const failed: Record<string, number> = {};
  let committed = 0;
  const write = async (): Promise<void> => {
    for (let left = transactions; left > 0;) {
      const runner = application.createQueryRunner();
      try {
        const written = await oneTransaction(runner, harness, keys);
        committed += written;
        left -= 1;
      } catch (error) {
        const { code = '' } = error as { code?: string };
        if (!RETRYABLE.has(code)) throw error;
        failed[code] = (failed[code] ?? 0) + 1;
        await runner.rollbackTransaction();
      } finally {
        await runner.release();
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: writers }, write));
  } finally {
    await application.destroy();
  }
  return { committed, failed };
}

async function oneTransaction(runner: QueryRunner, harness: Harness, keys: number): Promise<number> {
  const kept: { id: string; key: string }[] = [];
  const enqueue = async (): Promise<{ id: string; key: string }[]> => {
    const messages = Array.from({ length: upTo(3) }, () => newMessage({ key: `k${upTo(keys)}` }));
    await harness.store.writer.insert(transactionExecutor(runner), messages);
    return messages.map(({ id, key }) => ({ id, key: key as string }));
  };
  await runner.startTransaction();
  kept.push(...(await enqueue()));
  if (chance(0.3)) await pause(Math.random() * 4);
  if (chance(0.2)) {
    await runner.query('savepoint tried');
    await enqueue();
    await runner.query('rollback to savepoint tried');
  }
  if (chance(0.2)) kept.push(...(await enqueue()));
  await pause(Math.random() * 8);
  await runner.query(`insert into truth (id, k) values ${kept.map(({ id, key }) => `('${id}', '${key}')`).join(', ')}`);
  if (chance(0.1)) {
    await runner.rollbackTransaction();
    return 0;
  }
  await runner.commitTransaction();
  return kept.length;
}
