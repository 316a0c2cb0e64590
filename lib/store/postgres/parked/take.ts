import { compareSeq } from '../../../outbox-message.js';
import type { SqlExecutor } from '../../executor.js';
import { goBehind, withinReach } from '../../join-order.js';
import type { DueRow, KeyInBucket, PassedOver, TakeRequest, TakeResult } from '../../parked-store.js';
import { plainArray, textArray } from '../arrays.js';
import { readParked, type RowsAs } from '../columns.js';
import { stateName } from '../../parked-state.js';
import { leaseArrays } from '../ops/leases.js';
import type { ParkedStatements } from './statements.js';

interface Head {
  readonly parkedId: string;
  readonly state: string;
  readonly due: boolean;
  readonly sending: boolean;
}

/**
 * Marks rows as being sent, in one short transaction that begins with a lock on the lease rows: from then on nobody takes
 * the buckets over, and operators see either the row before or the row being sent. No row is waited for: one that somebody
 * else holds for long would keep all that is due waiting.
 */
export async function takeIn(
  tx: SqlExecutor,
  sql: ParkedStatements,
  request: TakeRequest,
  as: RowsAs,
): Promise<TakeResult> {
  const { transport, perKey } = request;
  const { held, locked } = await lock(tx, sql, request);
  const ours = request.due.filter((row) => held.has(row.bucket));
  const due = withinReach(ours, locked).map((row) => withKey(row, locked.get(row.parkedId)));
  const buckets = plainArray([...held]);
  await joinOrder(tx, sql, transport, due, buckets);
  const keys = distinctKeys([...due, ...request.keys.filter((key) => held.has(key.bucket))]);
  const heads = await readHeads(tx, sql, transport, keys, perKey);
  const ids = due.filter((row) => row.key === null).map((row) => row.parkedId);
  const firsts = new Set(heads.flatMap((rows) => rows[0]?.parkedId ?? []));
  const runs = heads.map((rows) => nextOf(rows).map((row) => row.parkedId));
  ids.push(...runs.flat());
  const behind = due.filter((row) => row.key !== null && !firsts.has(row.parkedId)).map((row) => row.parkedId);
  const demoted = behind.filter((id) => !ids.includes(id));
  if (demoted.length > 0) await tx.run(sql.demote.bind(plainArray(demoted)));

  const sent = ids.length === 0 ? [] : (await tx.run(sql.send[as].bind(plainArray(ids), transport, buckets))).rows;
  const read = sent.map((row) => readParked(row, as));
  const marked = new Set(read.map(({ parkedId }) => parkedId as string));
  const surplus = behindMissing(runs, marked);
  if (surplus.size > 0) await tx.run(sql.unsend.bind(plainArray([...surplus])));
  const messages = read.filter(({ parkedId }) => !surplus.has(parkedId as string));
  messages.sort((a, b) => compareSeq(a.seq, b.seq) || compareSeq(a.parkedId as string, b.parkedId as string));
  const clear = keys.filter((_, index) => heads[index]?.length === 0);
  const passedOver = [...ours.filter(({ parkedId }) => !locked.has(parkedId)), ...headsMissing(keys, runs, marked)];
  // Its own commit is a durable write that began after these rows were committed.
  return { messages, clear, passedOver, durable: true };
}

/**
 * The runs were read without locks, and an operator may hold or have changed a row since: `send` then passes it over, and what
 * stands behind it in its run must not go without it.
 */
export function behindMissing(runs: readonly (readonly string[])[], sent: ReadonlySet<string>): Set<string> {
  const behind = new Set<string>();
  for (const run of runs) {
    const missing = run.findIndex((id) => !sent.has(id));
    if (missing >= 0) for (const id of run.slice(missing)) if (sent.has(id)) behind.add(id);
  }
  return behind;
}

function headsMissing(
  keys: readonly KeyInBucket[],
  runs: readonly (readonly string[])[],
  sent: ReadonlySet<string>,
): PassedOver[] {
  return runs.flatMap(([parkedId], index) =>
    parkedId === undefined || sent.has(parkedId) ? [] : [{ ...(keys[index] as KeyInBucket), parkedId }],
  );
}

/** Buckets whose lease is ours, and rows of `due` with the keys that they hold. */
async function lock(
  tx: SqlExecutor,
  sql: ParkedStatements,
  { owner, transport, leases, due }: TakeRequest,
): Promise<{ held: Set<number>; locked: Map<string, string | null> }> {
  const ours = leases.filter((lease) => lease.transport === transport);
  const ids = plainArray(due.map(({ parkedId }) => parkedId));
  const { rows } = await tx.run(sql.held.bind(...leaseArrays(ours), owner, ids));
  const held = rows.flatMap(([bucket]) => (bucket === null ? [] : [Number(bucket)]));
  const locked = rows.flatMap(([, parkedId, , key]): [string, string | null][] =>
    parkedId === null ? [] : [[parkedId as string, key as string | null]],
  );
  return { held: new Set(held), locked: new Map(locked) };
}

/** A row that was found due without one, and requeued since then, holds its key and stands behind the earlier ones of it. */
function withKey(row: DueRow, key: string | null | undefined): DueRow {
  return row.key === null && typeof key === 'string' ? { ...row, key } : row;
}

async function joinOrder(
  tx: SqlExecutor,
  sql: ParkedStatements,
  transport: number,
  due: readonly DueRow[],
  buckets: string,
): Promise<void> {
  const scheduled = due.filter((row) => row.state === 'scheduled' && row.key !== null);
  if (scheduled.length === 0) return;
  const behind = await findBehind(tx, sql, transport, scheduled);
  const ids = plainArray(scheduled.map((row) => row.parkedId));
  await tx.run(sql.joinOrder.bind(ids, plainArray(behind), transport, buckets));
}

async function findBehind(
  tx: SqlExecutor,
  sql: ParkedStatements,
  transport: number,
  scheduled: readonly DueRow[],
): Promise<boolean[]> {
  const keys = distinctKeys(scheduled);
  const heads = await readHeads(tx, sql, transport, keys, 1);
  return goBehind(
    scheduled,
    keys.filter((_, index) => heads[index]?.length !== 0),
  );
}

function distinctKeys(rows: readonly { bucket: number; key: string | null }[]): KeyInBucket[] {
  const keys = new Map<string, KeyInBucket>();
  for (const { bucket, key } of rows) if (key !== null) keys.set(`${bucket} ${key}`, { bucket, key });
  return [...keys.values()];
}

async function readHeads(
  tx: SqlExecutor,
  sql: ParkedStatements,
  transport: number,
  keys: readonly KeyInBucket[],
  perKey: number,
): Promise<Head[][]> {
  const heads: Head[][] = keys.map(() => []);
  if (keys.length === 0) return heads;
  const { rows } = await tx.run(
    sql.heads.bind(
      plainArray(keys.map((_, index) => index)),
      plainArray(keys.map(({ bucket }) => bucket)),
      textArray(keys.map(({ key }) => key)),
      transport,
      transport,
      Math.max(1, perKey),
    ),
  );
  for (const [index, parkedId, state, due, sending] of rows) {
    heads[Number(index)]?.push({
      parkedId: parkedId as string,
      state: stateName(state),
      due: due === 't',
      sending: sending === 't',
    });
  }
  return heads;
}

/** What of a key may be sent now: its first row alone when that one was waiting, or the blocked ones up to the next obstacle. */
export function nextOf(rows: readonly Head[]): readonly Head[] {
  const first = rows[0];
  if (first === undefined || first.sending) return [];
  if (first.state === 'waiting') return first.due ? [first] : [];
  const obstacle = rows.findIndex((row) => row.state !== 'blocked' || row.sending);
  return obstacle < 0 ? rows : rows.slice(0, obstacle);
}
