import { compareSeq, type OutboxMessage } from '../../outbox-message.js';
import type { SqlExecutor } from '../executor.js';
import { goBehind, withinReach } from '../join-order.js';
import type { Lease } from '../lease-store.js';
import type { StoreSettings } from '../names.js';
import { BLOCKED, SCHEDULED, WAITING } from '../parked-state.js';
import type { DueRow, KeyInBucket, TakeRequest, TakeResult } from '../parked-store.js';
import type { Sql } from '../sql.js';
import type { Dialect } from './dialect.js';

export interface KeyOfTransport extends KeyInBucket {
  readonly transport: number;
}

/** One of the rows that block a key, in the order that decides for the key. */
export interface BlockingRow {
  /** Index into the keys that were asked for. */
  readonly key: number;
  readonly parkedId: string;
  readonly state: number;
  readonly due: boolean;
  readonly sendingEpoch: string | null;
}

/** What a take asks and writes, in the words of one database. */
export interface TakeSql {
  /** Locks lease rows that are still this owner's and have not run out. Bucket → its lease. */
  hold(tx: SqlExecutor, owner: string, leases: readonly Lease[]): Promise<ReadonlyMap<number, Lease>>;
  /** The first blocking rows of each key. */
  first(tx: SqlExecutor, keys: readonly KeyOfTransport[], perKey: number): Promise<readonly BlockingRow[]>;
  /** Numbers above all that were given out, in their order. */
  draw(tx: SqlExecutor, transport: number, count: number): Promise<readonly string[]>;
  /** Locks rows that nobody else has locked: number, bucket, key, state, whether it blocks, whether it is due, its epoch. */
  lock(transport: number, parkedIds: readonly string[]): Sql;
  /** Scheduled rows become waiting ones that block, with a new number if one is given. */
  join(rows: readonly (readonly [parkedId: string, seq: string | null])[]): Sql;
  demote(parkedIds: readonly string[]): Sql;
  mark(rows: readonly (readonly [parkedId: string, epoch: string])[]): Sql;
}

/** How messages are read. */
export interface ReadSql {
  /** Locks rows as `lock` does: the columns of a message, then whether it is due, and its epoch. */
  lock(transport: number, parkedIds: readonly string[]): Sql;
  message(row: readonly unknown[]): OutboxMessage;
}

/** A row that this transaction has locked. */
interface LockedRow extends KeyInBucketOrNone {
  readonly parkedId: string;
  readonly state: number;
  readonly due: boolean;
  readonly epoch: string | null;
}
/** Whose order a row stands in, or will: its key, `''` for all rows of a global order, `null` for none. */
interface KeyInBucketOrNone {
  readonly bucket: number;
  readonly key: string | null;
}
type Held = ReadonlyMap<number, Lease>;

/**
 * Marks parked rows as being sent, in one short transaction: lock the leases, lock the rows, judge, write. Nobody takes a
 * bucket over meanwhile, what an operator deletes is not taken, and what is taken cannot be deleted. No row is waited for: one
 * that somebody else holds for long would keep all that is due waiting.
 */
export class Take {
  constructor(
    private readonly dialect: Dialect,
    private readonly sql: TakeSql,
    private readonly ordering: StoreSettings['ordering'],
  ) {}

  async take(tx: SqlExecutor, request: TakeRequest, read: ReadSql): Promise<TakeResult> {
    const { owner, transport, perKey } = request;
    const leases = request.leases.filter((lease) => lease.transport === transport);
    const held = leases.length === 0 ? (new Map() as Held) : await this.sql.hold(tx, owner, leases);
    const ours = request.due.filter(({ bucket }) => held.has(bucket));
    const locked = await this.lock(tx, transport, ours);
    const due = withinReach(ours, locked)
      .map(({ parkedId }) => locked.get(parkedId) as LockedRow)
      .filter((row) => row.due && !isSending(row.epoch, held, row));
    const ordered = due.filter((row): row is LockedRow & KeyInBucket => row.key !== null);
    await this.join(tx, transport, ordered);

    const keys = distinctKeys(transport, [...ordered, ...request.keys.filter(({ bucket }) => held.has(bucket))]);
    const first = await this.firstOf(tx, keys, Math.max(1, perKey));
    const runs = first.map((rows, index) => nextOf(rows, held.get((keys[index] as KeyInBucket).bucket) as Lease));
    await this.demote(tx, ordered, first, runs);

    const free = due.filter(({ key }) => key === null).map(({ parkedId }) => parkedId);
    const messages = await this.lockMessages(tx, transport, [...free, ...runs.flat()], held, read);
    // The runs were read without locks: each ends before the first row that changed since, or that somebody holds.
    const going = [...free.filter((id) => messages.has(id)), ...runs.flatMap((run) => upToMissing(run, messages))];
    const sent = going.map((id) => messages.get(id) as OutboxMessage);
    if (sent.length > 0) await tx.run(this.sql.mark(sent.map((row) => markOf(row, held))));
    const heads = runs.flatMap(([parkedId], index) =>
      parkedId === undefined || messages.has(parkedId) ? [] : [{ ...(keys[index] as KeyInBucket), parkedId }],
    );
    return {
      messages: sent.sort(byNumber),
      clear: keys.filter((_, index) => first[index]?.length === 0).map(({ bucket, key }) => ({ bucket, key })),
      passedOver: [...ours.filter(({ parkedId }) => !locked.has(parkedId)), ...heads],
      durable: true, // our own commit is a durable write that comes after the rows'
    };
  }

  private async lock(
    tx: SqlExecutor,
    transport: number,
    due: readonly DueRow[],
  ): Promise<ReadonlyMap<string, LockedRow>> {
    if (due.length === 0) return new Map();
    const { rows } = await tx.run(
      this.sql.lock(
        transport,
        due.map(({ parkedId }) => parkedId),
      ),
    );
    return new Map(
      rows.map(([id, bucket, key, number, blocks, isDue, epoch]) => {
        const [parkedId, state] = [String(id), Number(number)];
        const isOrdered = this.dialect.isTrue(blocks) || (this.ordering !== 'none' && state === SCHEDULED);
        const ofKey = this.ordering === 'global' ? '' : this.dialect.readKey(key);
        const row = { parkedId, bucket: Number(bucket), key: isOrdered ? ofKey : null, state };
        return [parkedId, { ...row, due: this.dialect.isTrue(isDue), epoch: textOrNull(epoch) }];
      }),
    );
  }

  /** A scheduled row whose time has come joins its key's order behind what is there; until then it held nobody. */
  private async join(tx: SqlExecutor, transport: number, ordered: readonly (LockedRow & KeyInBucket)[]): Promise<void> {
    const scheduled = ordered.filter(({ state }) => state === SCHEDULED);
    if (scheduled.length === 0) return;
    const keys = distinctKeys(transport, scheduled);
    const first = await this.firstOf(tx, keys, 1);
    const behind = goBehind(
      scheduled,
      keys.filter((_, index) => first[index]?.length !== 0),
    );
    const count = behind.filter(Boolean).length;
    const numbers = count === 0 ? [] : [...(await this.sql.draw(tx, transport, count))];
    const rows = scheduled.map(({ parkedId }, i) => {
      return [parkedId, behind[i] === true ? (numbers.shift() as string) : null] as const;
    });
    await tx.run(this.sql.join(rows));
  }

  private async firstOf(tx: SqlExecutor, keys: readonly KeyOfTransport[], perKey: number): Promise<BlockingRow[][]> {
    const first: BlockingRow[][] = keys.map(() => []);
    if (keys.length === 0) return first;
    for (const row of await this.sql.first(tx, keys, perKey)) first[row.key]?.push(row);
    return first;
  }

  /** A due row behind its key's first one waits for it, out of the due poll's sight. */
  private async demote(
    tx: SqlExecutor,
    ordered: readonly LockedRow[],
    first: readonly (readonly BlockingRow[])[],
    runs: readonly (readonly string[])[],
  ): Promise<void> {
    const stay = new Set([...first.map(([head]) => head?.parkedId), ...runs.flat()]);
    const behind = ordered.map(({ parkedId }) => parkedId).filter((id) => !stay.has(id));
    if (behind.length > 0) await tx.run(this.sql.demote(behind));
  }

  /** Of these rows those that are free, and may be sent now. */
  private async lockMessages(
    tx: SqlExecutor,
    transport: number,
    parkedIds: readonly string[],
    held: Held,
    read: ReadSql,
  ): Promise<ReadonlyMap<string, OutboxMessage>> {
    if (parkedIds.length === 0) return new Map();
    const { rows } = await tx.run(read.lock(transport, parkedIds));
    const found = rows.flatMap((row): [string, OutboxMessage][] => {
      const message = read.message(row);
      const [due, epoch] = row.slice(-2);
      const mayGo = message.parkedState === 'blocked' || this.dialect.isTrue(due);
      return mayGo && !isSending(textOrNull(epoch), held, message) ? [[message.parkedId as string, message]] : [];
    });
    return new Map(found);
  }
}

/** What of a key may be sent now: its first row alone when that one was waiting, or the blocked ones up to the next obstacle. */
function nextOf(rows: readonly BlockingRow[], { epoch }: Lease): readonly string[] {
  const [head] = rows;
  if (head === undefined || head.sendingEpoch === epoch) return [];
  if (head.state === WAITING) return head.due ? [head.parkedId] : [];
  const obstacle = rows.findIndex(({ state, sendingEpoch }) => state !== BLOCKED || sendingEpoch === epoch);
  return (obstacle < 0 ? rows : rows.slice(0, obstacle)).map(({ parkedId }) => parkedId);
}

function upToMissing(run: readonly string[], there: { has(parkedId: string): boolean }): readonly string[] {
  const missing = run.findIndex((id) => !there.has(id));
  return missing < 0 ? run : run.slice(0, missing);
}

/** In the epoch that the lease has now. What a former one was sending is taken again. */
const isSending = (epoch: string | null, held: Held, { bucket }: { bucket: number }): boolean =>
  epoch !== null && epoch === held.get(bucket)?.epoch;

const markOf = ({ parkedId, bucket }: OutboxMessage, held: Held) =>
  [parkedId as string, (held.get(bucket) as Lease).epoch] as const;

const byNumber = (a: OutboxMessage, b: OutboxMessage): number =>
  compareSeq(a.seq, b.seq) || compareSeq(a.parkedId as string, b.parkedId as string);

const textOrNull = (column: unknown): string | null => (column === null ? null : String(column));

function distinctKeys(transport: number, keys: readonly KeyInBucket[]): readonly KeyOfTransport[] {
  const distinct = new Map(keys.map(({ bucket, key }) => [`${bucket} ${key}`, { transport, bucket, key }]));
  return [...distinct.values()];
}
