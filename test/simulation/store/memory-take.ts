import { goBehind } from '../../../lib/store/join-order.js';
import type { DueRow, TakeRequest, TakeResult } from '../../../lib/store/parked-store.js';
import { blockingRows, distinctKeys } from './memory-keys.js';
import { keyToAsk } from './memory-parked.js';
import type { MemoryDatabase } from './memory-database.js';
import { byOrder, type ParkedRow } from './memory-rows.js';

/** Marks rows as being sent in the epochs of these leases. The whole transaction is one step. */
export function take(database: MemoryDatabase, request: TakeRequest): TakeResult {
  const { transport, perKey } = request;
  const now = database.now();
  const epochs = heldEpochs(database, request, now);
  const due = request.due.filter(({ bucket }) => epochs.has(bucket)).map((row) => withKey(database, row));
  const isSending = (row: ParkedRow): boolean => row.sendingEpoch === database.lease(transport, row.bucket)?.epoch;

  joinOrder(database, transport, due, now);
  const keys = distinctKeys([...due, ...request.keys.filter(({ bucket }) => epochs.has(bucket))]);
  const heads = keys.map(({ bucket, key }) =>
    blockingRows(database, transport, bucket, key).slice(0, Math.max(1, perKey)),
  );
  const ids = new Set(due.filter(({ key }) => key === null).map(({ parkedId }) => parkedId));
  for (const rows of heads) for (const { parkedId } of nextOf(rows, isSending, now)) ids.add(parkedId);
  const firsts = new Set(heads.map((rows) => rows[0]?.parkedId));
  for (const { parkedId, key } of due) {
    if (key !== null && !firsts.has(parkedId) && !ids.has(parkedId)) demote(database, parkedId);
  }

  const sent = [...ids].flatMap((parkedId) => {
    const row = database.parked.get(parkedId);
    const epoch = row?.transport === transport ? epochs.get(row.bucket) : undefined;
    return row !== undefined && epoch !== undefined && send(row, epoch, now) ? [row] : [];
  });
  database.watch?.read(sent);
  return {
    messages: sent.sort(byOrder).map((row) => database.message(row)),
    clear: keys.filter((_, index) => heads[index]?.length === 0),
    durable: true,
  };
}

/** A row that was found due without one, and requeued since then, holds its key. */
function withKey(database: MemoryDatabase, row: DueRow): DueRow {
  const now = database.parked.get(row.parkedId);
  return row.key !== null || now === undefined ? row : { ...row, key: keyToAsk(database, now) };
}

/** Unlike a park, a take needs a lease that has not expired: it begins a publish. */
function heldEpochs(database: MemoryDatabase, request: TakeRequest, now: number): Map<number, bigint> {
  const held = database
    .held(request.owner, request.leases)
    .filter((row) => row.transport === request.transport && row.expiresAt > now);
  return new Map(held.map(({ bucket, epoch }) => [bucket, epoch]));
}

/** A scheduled message whose time has come holds the later ones of its key from now on, behind those that block it. */
function joinOrder(database: MemoryDatabase, transport: number, due: readonly DueRow[], now: number): void {
  const joining = due.filter(({ parkedId, key }) => {
    const row = database.parked.get(parkedId);
    return key !== null && row?.state === 'scheduled' && row.dueAt !== null && row.dueAt <= now;
  });
  const blocked = distinctKeys(joining).filter(
    ({ bucket, key }) => blockingRows(database, transport, bucket, key).length > 0,
  );
  const behind = goBehind(joining, blocked);
  joining.forEach(({ parkedId, bucket, key }, index) => {
    const row = database.parked.get(parkedId) as ParkedRow;
    database.watch?.joined(row, blockingRows(database, transport, bucket, key as string));
    if (behind[index] === true) row.seq = database.takeSeq();
    row.state = 'waiting';
    row.blocking = true;
  });
}

/** What of a key may be sent now: a waiting first row alone, or the blocked ones up to the next obstacle. */
function nextOf(rows: readonly ParkedRow[], isSending: (row: ParkedRow) => boolean, now: number): readonly ParkedRow[] {
  const [first] = rows;
  if (first === undefined || isSending(first)) return [];
  if (first.state === 'waiting') return first.dueAt !== null && first.dueAt <= now ? [first] : [];
  const obstacle = rows.findIndex((row) => row.state !== 'blocked' || isSending(row));
  return obstacle < 0 ? rows : rows.slice(0, obstacle);
}

/** Behind an earlier row of its key: found through the key from now on, not through its time. */
function demote({ parked }: MemoryDatabase, parkedId: string): void {
  const row = parked.get(parkedId);
  if (row?.state !== 'waiting' && row?.state !== 'blocked') return;
  row.state = 'blocked';
  row.dueAt = null;
}

function send(row: ParkedRow, epoch: bigint, now: number): boolean {
  if (row.sendingEpoch === epoch || row.state === 'dead') return false;
  if (row.state !== 'blocked' && (row.dueAt === null || row.dueAt > now)) return false;
  row.sendingEpoch = epoch;
  if (row.state === 'blocked') row.dueAt = null;
  return true;
}
