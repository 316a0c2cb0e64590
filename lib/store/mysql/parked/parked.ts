import { keyBytes } from '../../../message/key-bytes.js';
import type { ParkedState } from '../../../outbox-message.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import type { Lease } from '../../lease-store.js';
import type {
  DeadLetter,
  Death,
  Hastened,
  HastenRequest,
  KeyInBucket,
  ParkedStore,
  ReparkEntry,
  TakeRequest,
  TakeResult,
} from '../../parked-store.js';
import type { WriteReport } from '../../ready-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { hastenPart } from '../../sql/hasten.js';
import { MysqlBlockingKeys } from './blocking-keys.js';
import { readKey, readParked, readTime, type Row } from '../columns.js';
import { stateName, stateNumber } from '../../parked-state.js';
import { jsonRows, type JsonCell } from '../json-rows.js';
import type { MysqlFence } from '../ops/leases.js';
import { parkedStatements } from './statements.js';
import { inTransaction, retried } from '../../retry.js';
import { microseconds, storable, storableError } from '../ready/settle.js';
import { Take, type ReadSql, type TakeSql } from '../../sql/take.js';
import { MYSQL } from '../dialect.js';
import { mysqlRead, mysqlTake } from './take.js';

/** Where messages wait for their time, their turn or a decision. */
export class MysqlParked implements ParkedStore {
  private readonly sql: ReturnType<typeof parkedStatements>;
  private readonly taker: Take;
  private readonly reading: ReadSql;
  private readonly keys: MysqlBlockingKeys;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
    readonly fence: MysqlFence,
    heads: TakeSql['first'],
    readonly settings: Pick<StoreSettings, 'ordering' | 'errorHistory'>,
  ) {
    this.sql = parkedStatements(names, settings.errorHistory);
    this.taker = new Take(MYSQL, mysqlTake(names, fence, heads), settings.ordering);
    this.reading = mysqlRead(names);
    this.keys = new MysqlBlockingKeys(names);
  }

  async due(...[transport, buckets, limit]: Parameters<ParkedStore['due']>): ReturnType<ParkedStore['due']> {
    if (buckets.length === 0) return { rows: [], nextIn: null };
    const read = this.database.connection('read');
    if ((await read.run(this.sql.any.bind(transport))).rows.length === 0) return { rows: [], nextIn: null };
    const places = buckets.flatMap((bucket) => [transport, bucket]);
    const [first = []] = (await read.run(this.sql.earliest(buckets.length).bind(...places))).rows;
    const now = readTime(first[0]);
    const times = first.slice(1).map((text) => (text === null ? null : readTime(text)));
    // One index look-up per bucket answers an idle poll; only buckets with something due are asked further.
    const withDue = buckets.filter((_, i) => (times[i] ?? Infinity) <= now);
    const later = times.flatMap((time) => (time !== null && time > now ? [time] : []));
    if (withDue.length === 0) return { rows: [], nextIn: untilFirst(later, now) };
    const due = this.sql.due(withDue.length).bind(...withDue.flatMap((bucket) => [transport, bucket, limit]), limit);
    const rows = (await read.run(due)).rows.map(([parkedId, bucket, key, state, blocking]) => ({
      parkedId: String(parkedId),
      bucket: Number(bucket),
      key: this.keyToAsk(key, stateName(state), Number(blocking) === 1),
      state: stateName(state),
    }));
    const next = this.sql.later(withDue.length).bind(...withDue.flatMap((bucket) => [transport, bucket]));
    for (const time of (await read.run(next)).rows[0] ?? []) if (time !== null) later.push(readTime(time));
    return { rows, nextIn: untilFirst(later, now) };
  }

  /** A row that holds nobody back, and never will, is nobody's successor either: it goes as one without a key. */
  private keyToAsk(key: unknown, state: ParkedState, blocking: boolean): string | null {
    const { ordering } = this.settings;
    if (!blocking && (ordering === 'none' || state !== 'scheduled')) return null;
    return ordering === 'global' ? '' : readKey(key);
  }

  async hasten(transport: number, buckets: readonly number[], request: HastenRequest): Promise<Hastened> {
    const read = this.database.connection('read');
    return hastenPart(
      buckets,
      request,
      MYSQL,
      (after) => read.run(this.sql.waiting.bind(transport, after, request.limit)),
      (ids) => {
        const list = jsonRows(ids.map((id) => [BigInt(id)]));
        return inTransaction(this.database.connection('settle'), async (tx) => {
          const free = (await tx.run(this.sql.lock.bind(list))).rows.map(([id]) => [BigInt(id as string)]);
          return free.length === 0 ? 0 : (await tx.run(this.sql.hasten.bind(jsonRows(free)))).affected;
        });
      },
    );
  }

  take(request: TakeRequest): Promise<TakeResult> {
    return inTransaction(this.database.connection('settle'), (tx) => this.taker.take(tx, request, this.reading));
  }

  async repark(owner: string, leases: readonly Lease[], entries: readonly ReparkEntry[]): Promise<WriteReport> {
    if (leases.length === 0 || entries.length === 0) return { fence: undefined, affected: 0 };
    const affected = await inTransaction(this.database.connection('settle'), async (tx) => {
      const held = await this.fence.hold(tx, owner, leases, false);
      const ours = entries.filter(({ bucket }) => held.has(bucket));
      if (ours.length === 0) return 0;
      const list = jsonRows(ours.map((entry) => reparkRow(entry, (held.get(entry.bucket) as Lease).epoch)));
      return (await tx.run(this.sql.repark.bind(list))).affected;
    });
    return { fence: undefined, affected };
  }

  /** Rows that the transaction has locked. */
  async reparkLocked(tx: SqlExecutor, entries: readonly ReparkEntry[]): Promise<void> {
    await tx.run(this.sql.reparkLocked.bind(jsonRows(entries.map((entry) => reparkRow(entry, null)))));
  }

  blockingKeys(...of: Parameters<ParkedStore['blockingKeys']>): ReturnType<ParkedStore['blockingKeys']> {
    return this.keys.list(this.database.connection('read'), ...of);
  }

  async blockedAmong(transport: number, keys: readonly KeyInBucket[]): Promise<KeyInBucket[]> {
    if (keys.length === 0) return [];
    if (this.settings.ordering === 'global') {
      const { rows } = await this.database.connection('read').run(this.sql.anyBlocking.bind(transport, transport));
      return rows.length > 0 ? [...keys] : [];
    }
    const list = jsonRows(keys.map(({ bucket, key }, i) => [i, bucket, keyBytes(key).toString('hex')]));
    const { rows } = await this.database.connection('read').run(this.sql.blockedAmong.bind(transport, list));
    return rows.flatMap(([index, found]) => (found === null ? [] : [keys[Number(index)] as KeyInBucket]));
  }

  async unannouncedDead(transports: readonly number[], limit: number, after?: Death): Promise<DeadLetter[]> {
    const letters: DeadLetter[] = [];
    for (const transport of transports) {
      const left = limit - letters.length;
      if (left === 0) break;
      const { died, parkedId } = transport === after?.transport ? after : BEFORE_ALL;
      const sql = this.sql.unannounced.bind(transport, died, died, parkedId, left);
      letters.push(...(await this.database.connection('admin').run(sql)).rows.map(readLetter));
    }
    return letters;
  }

  async markAnnounced(deaths: readonly Death[]): Promise<void> {
    if (deaths.length === 0) return;
    const list = jsonRows(deaths.map(({ parkedId, died }) => [BigInt(parkedId), died]));
    await retried(() => this.database.connection('admin').run(this.sql.announced.bind(list)));
  }
}

const BEFORE_ALL = { died: '1970-01-01', parkedId: '0' };

function readLetter(row: Row): DeadLetter {
  const message = readParked(row);
  const [transport, error, died] = row.slice(-3);
  return {
    parkedId: message.parkedId as string,
    message,
    transport: Number(transport),
    error: error as string | null,
    died: died as string,
    diedAt: new Date(readTime(died)),
  };
}

function reparkRow(entry: ReparkEntry, epoch: string | null): JsonCell[] {
  const { parkedId, state, blocks, attempts, attemptsBefore, delay, error, progress } = entry;
  return [
    BigInt(parkedId),
    epoch === null ? null : BigInt(epoch),
    stateNumber(state),
    blocks,
    attempts,
    attemptsBefore,
    microseconds(delay),
    storableError(error),
    storable(progress),
    progress !== undefined,
  ];
}

const untilFirst = (times: readonly number[], now: number): number | null =>
  times.length === 0 ? null : Math.max(0, Math.ceil(Math.min(...times) - now));
