import { compareSeq, type OutboxMessage } from '../../../outbox-message.js';
import type { SqlExecutor } from '../../executor.js';
import type { Lease } from '../../lease-store.js';
import { goBehind, withinReach } from '../../join-order.js';
import type { DueRow, KeyInBucket, PassedOver, TakeRequest, TakeResult } from '../../parked-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import { updateOf } from '../capabilities.js';
import { messageFrom, parkedFrom, readKey, readParked } from '../columns.js';
import { BLOCKED, SCHEDULED, WAITING } from '../../parked-state.js';
import { jsonRows, jsonTable, lookUp, PARKED_IDS, type JsonCell } from '../json-rows.js';
import type { MysqlFence } from '../ops/leases.js';
import { MysqlNumbers } from '../ready/numbers.js';
import type { BlockingRow, MysqlWake } from './wake.js';

/** Rows looked at beyond the ones to take, to see whether the owner is sending one of the key already. */
const LOOK_BEYOND = 16;
const EMPTY: TakeResult = { messages: [], clear: [], durable: true };

interface LockedRow {
  readonly parkedId: string;
  readonly bucket: number;
  readonly key: string | null;
  readonly state: number;
  readonly blocking: boolean;
  readonly due: boolean;
}

/**
 * Marks parked rows as being sent. Runs in a transaction of its own behind the fence; rows are locked before they are
 * judged, so that a row that `cancel` deleted is not taken and a row that is taken is not cancelled. None is waited for: one
 * that somebody else holds for long would keep all that is due waiting.
 */
export class MysqlTake {
  private readonly sql: ReturnType<typeof takeStatements>;
  private readonly numbers: MysqlNumbers;

  constructor(
    readonly names: TableNames,
    readonly settings: StoreSettings,
    readonly fence: MysqlFence,
    readonly wake: MysqlWake,
  ) {
    this.sql = takeStatements(names);
    this.numbers = new MysqlNumbers(names);
  }

  async take(tx: SqlExecutor, request: TakeRequest): Promise<TakeResult> {
    const { owner, transport, due, keys, perKey } = request;
    const held = await this.fence.hold(
      tx,
      owner,
      request.leases.filter((lease) => lease.transport === transport),
      true,
    );
    if (held.size === 0) return EMPTY;
    const { locked, passedOver } = await this.lockDue(tx, held, request);
    const ordered = locked.filter((row) => this.isOrdered(row));
    await this.join(tx, transport, due, ordered);
    const keysOfDue = due.flatMap(({ bucket, key }) => (key === null ? [] : [{ bucket, key }]));
    // Of what was requeued since it was found due, which did not name it.
    const keysOfOrdered = ordered.map(({ bucket, key }) => ({ bucket, key: this.isGlobal ? '' : (key as string) }));
    const wanted = uniqueKeys(
      transport,
      [...keysOfDue, ...keysOfOrdered, ...keys].filter(({ bucket }) => held.has(bucket)),
    );
    const first = await this.wake.first(tx, wanted, perKey + LOOK_BEYOND);
    const chosen: string[] = locked.filter((row) => !this.isOrdered(row)).map(({ parkedId }) => parkedId);
    const rowsOf = groupByKey(first);
    const runs = wanted.map((key, index) => runOf(rowsOf.get(index) ?? [], held.get(key.bucket) as Lease, perKey));
    await this.demote(tx, ordered, rowsOf, runs);
    const going = await this.lockRuns(tx, held, transport, runs);
    chosen.push(...going.flat());
    runs.forEach(([head], index) => {
      if (head !== undefined && going[index]?.length === 0) passedOver.push(named(head, wanted[index] as KeyInBucket));
    });
    const messages = await this.mark(tx, held, chosen);
    const clear = wanted.filter((_, index) => !rowsOf.has(index)).map(({ bucket, key }) => ({ bucket, key }));
    return { messages, clear, passedOver, durable: true }; // our own commit comes after the rows', so it brings them to disk
  }

  private async lockDue(
    tx: SqlExecutor,
    held: ReadonlyMap<number, Lease>,
    { transport, due }: TakeRequest,
  ): Promise<{ locked: LockedRow[]; passedOver: PassedOver[] }> {
    const ids = due.map(({ parkedId }) => parkedId);
    const rows = await this.lock(tx, held, transport, ids);
    const locked = new Set(rows.map(({ parkedId }) => parkedId));
    const free = new Set(withinReach(due, locked).map(({ parkedId }) => parkedId));
    return {
      locked: rows.filter((row) => row.due && free.has(row.parkedId)),
      passedOver: due.filter(({ parkedId, bucket }) => held.has(bucket) && !locked.has(parkedId)),
    };
  }

  private get isGlobal(): boolean {
    return this.settings.ordering === 'global';
  }

  private isOrdered(row: LockedRow): boolean {
    if (this.settings.ordering === 'none' || (row.key === null && !this.isGlobal)) return false;
    return row.blocking || row.state === SCHEDULED;
  }

  /** Locks rows that nobody else has locked, belong to a held bucket and are not being sent in its epoch. */
  private async lock(
    tx: SqlExecutor,
    held: ReadonlyMap<number, Lease>,
    transport: number,
    parkedIds: readonly string[],
  ): Promise<LockedRow[]> {
    if (parkedIds.length === 0) return [];
    const sorted = [...parkedIds].sort(compareSeq).map((id) => [BigInt(id)]);
    const { rows } = await tx.run(this.sql.lock.bind(jsonRows(sorted), transport));
    return rows.flatMap(([parkedId, bucket, key, state, blocking, due, epoch]) => {
      const lease = held.get(Number(bucket));
      if (lease === undefined || lease.epoch === epoch) return [];
      return [
        {
          parkedId: String(parkedId),
          bucket: Number(bucket),
          key: readKey(key),
          state: Number(state),
          blocking: Number(blocking) === 1,
          due: Number(due) === 1,
        },
      ];
    });
  }

  /** A scheduled row whose time has come joins its key's order behind what is there; until then it held nobody. */
  private async join(
    tx: SqlExecutor,
    transport: number,
    due: readonly DueRow[],
    ordered: readonly LockedRow[],
  ): Promise<void> {
    const ids = new Set(ordered.flatMap(({ parkedId, state }) => (state === SCHEDULED ? [parkedId] : [])));
    if (ids.size === 0) return;
    const scheduled = due.filter(({ parkedId }) => ids.has(parkedId));
    const keys = uniqueKeys(transport, scheduled as readonly KeyInBucket[]);
    const first = await this.wake.first(tx, keys, 1);
    const blocked = first.map(({ key }) => keys[key] as KeyInBucket);
    const behind = goBehind(scheduled, blocked);
    const numbers = await this.numbers.draw(tx, transport, behind.filter(Boolean).length);
    const rows = scheduled.map(({ parkedId }, i) => [BigInt(parkedId), behind[i] === true ? numbers.shift() : null]);
    await tx.run(this.sql.join.bind(jsonRows(rows as JsonCell[][])));
  }

  /** A due row behind its key's first one waits for it, out of the due poll's sight. */
  private async demote(
    tx: SqlExecutor,
    ordered: readonly LockedRow[],
    rowsOf: ReadonlyMap<number, readonly BlockingRow[]>,
    runs: readonly (readonly string[])[],
  ): Promise<void> {
    const heads = new Set([...rowsOf.values()].map(([head]) => head?.parkedId));
    const taken = new Set(runs.flat());
    const behind = ordered.map(({ parkedId }) => parkedId).filter((id) => !heads.has(id) && !taken.has(id));
    if (behind.length > 0) await tx.run(this.sql.demote.bind(idRows(behind)));
  }

  /** The runs were read without locks: each ends before the first row that changed since, or is locked. */
  private async lockRuns(
    tx: SqlExecutor,
    held: ReadonlyMap<number, Lease>,
    transport: number,
    runs: readonly (readonly string[])[],
  ): Promise<(readonly string[])[]> {
    const locked = await this.lock(tx, held, transport, runs.flat());
    const usable = new Set(
      locked
        .filter(({ state, blocking }) => blocking && (state === WAITING || state === BLOCKED))
        .map(({ parkedId }) => parkedId),
    );
    return runs.map((run) => {
      const end = run.findIndex((id) => !usable.has(id));
      return end === -1 ? run : run.slice(0, end);
    });
  }

  private async mark(
    tx: SqlExecutor,
    held: ReadonlyMap<number, Lease>,
    chosen: readonly string[],
  ): Promise<OutboxMessage[]> {
    if (chosen.length === 0) return [];
    const ids = idRows(chosen);
    const messages = (await tx.run(this.sql.read.bind(ids))).rows.map(readParked);
    const epochs = messages.map(({ parkedId, bucket }) => [
      BigInt(parkedId as string),
      BigInt((held.get(bucket) as Lease).epoch),
    ]);
    await tx.run(this.sql.mark.bind(jsonRows(epochs)));
    return messages.sort(
      (a, b) =>
        a.bucket - b.bucket || compareSeq(a.seq, b.seq) || compareSeq(a.parkedId as string, b.parkedId as string),
    );
  }
}

/** Which of a key's first rows can go now, in order. */
function runOf(rows: readonly BlockingRow[], lease: Lease, perKey: number): string[] {
  const [head] = rows;
  // One unresolved unit per key: while a row of it is being sent, the others wait.
  if (head === undefined || rows.some(({ sendingEpoch }) => sendingEpoch === lease.epoch)) return [];
  if (head.state === WAITING) return head.due || head.sendingEpoch !== null ? [head.parkedId] : [];
  const run: string[] = [];
  for (const { parkedId, state, sendingEpoch } of rows) {
    const left = sendingEpoch !== null;
    if (run.length === perKey || !(state === BLOCKED || (state === WAITING && left))) break;
    run.push(parkedId);
  }
  return run;
}

function takeStatements({ parked }: TableNames) {
  const byId = `${lookUp(PARKED_IDS, `${parked} p`)} on p.parked_id = k.p`;
  const placed = `${lookUp(jsonTable({ p: 'bigint unsigned', s: 'bigint unsigned' }), `${parked} p`)} on p.parked_id = k.p`;
  const marked = `${lookUp(jsonTable({ p: 'bigint unsigned', e: 'bigint unsigned' }), `${parked} p`)} on p.parked_id = k.p`;
  return {
    lock: statement(
      'lock parked',
      `select p.parked_id, p.bucket, p.\`key\`, p.state, p.blocking,
      p.due_at <= utc_timestamp(6), p.sending_epoch from ${byId} where p.transport = ? ${updateOf('p')} skip locked`,
    ),
    join: statement(
      'join order',
      `update ${placed} set p.state = ${WAITING}, p.blocking = 1, p.seq = coalesce(k.s, p.seq)
      where p.state = ${SCHEDULED}`,
    ),
    demote: statement('demote', `update ${byId} set p.state = ${BLOCKED}, p.due_at = null, p.sending_epoch = null`),
    read: statement('read parked', `select ${messageFrom('p')}, ${parkedFrom('p')} from ${byId}`),
    mark: statement('mark sending', `update ${marked} set p.sending_epoch = k.e`),
  };
}

const named = (parkedId: string, { bucket, key }: KeyInBucket): PassedOver => ({ parkedId, bucket, key });
const idRows = (ids: readonly string[]): string => jsonRows(ids.map((id) => [BigInt(id)]));

function uniqueKeys(transport: number, keys: readonly KeyInBucket[]): (KeyInBucket & { transport: number })[] {
  const unique = new Map(keys.map(({ bucket, key }) => [`${bucket} ${key}`, { transport, bucket, key }]));
  return [...unique.values()];
}

function groupByKey(rows: readonly BlockingRow[]): Map<number, BlockingRow[]> {
  const groups = new Map<number, BlockingRow[]>();
  for (const row of rows) {
    const group = groups.get(row.key);
    if (group === undefined) groups.set(row.key, [row]);
    else group.push(row);
  }
  return groups;
}
