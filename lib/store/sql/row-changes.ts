import { bucketOf } from '../../message/bucket-of.js';
import { compareSeq } from '../../outbox-message.js';
import type { SqlExecutor } from '../executor.js';
import type { StoredRow } from '../inspect-store.js';
import type { StoreSettings } from '../names.js';
import type { ChangeStep, EditStep, ReadyStep } from '../operator-store.js';
import { stateNumber } from '../parked-state.js';
import type { Sql, Statement } from '../sql.js';
import type { Dialect } from './dialect.js';
import type { Place } from './lookup.js';
import type { KeyOfTransport } from './take.js';
import type { KeyWake } from './wake.js';
import type { Rows } from './timed-selects.js';

export type RowPlace = Pick<StoredRow, 'id' | 'transport' | 'bucket'>;

/** How rows are locked and changed in one database. */
export interface RowSql {
  /** Lets nobody take these leases over. Rows: transport, bucket, epoch, whether it lasts, whether it has an owner. */
  lockLeases(places: readonly Place[]): Sql;
  /** Rows: number, id, transport, bucket, key, state, blocking, epoch in which it is sent. With row locks those that are sent are left. */
  lockParked(rowIds: readonly string[]): Sql;
  requeue(rowIds: readonly string[]): Sql;
  removeParked(rowIds: readonly string[]): Sql;
  /** The dead rows of a key block no longer: transport, bucket, key. */
  readonly unblock: Statement;
  /** Rows: transport, bucket, number, and then the id. */
  readonly ready: Removal;
  /** Rows: the position of a row in the archive. */
  readonly archived: Removal;
}
/** Deletes rows that nobody else has locked. */
export interface Removal {
  /** Returns the rows that it locks; `undefined` where `remove` returns those that it deletes. */
  readonly lock: ((rows: Rows) => Sql) | undefined;
  remove(rows: Rows): Sql;
}

interface Locked extends KeyOfTransport {
  readonly rowId: string;
  readonly id: string;
  readonly state: number;
  readonly isBlocking: boolean;
  readonly isSent: boolean;
}

/**
 * How operators change rows that wait, never one that is being sent. The lease rows are locked first, then the rows, all in one
 * order. While a lease row is locked nobody takes the bucket over, so that its epoch is the only one in which a row can be sent,
 * and whoever would begin to send it waits for the row.
 */
export class RowChanges {
  constructor(
    private readonly dialect: Dialect,
    private readonly sql: RowSql,
    private readonly wake: KeyWake,
    private readonly settings: Pick<StoreSettings, 'buckets' | 'ordering'>,
  ) {}

  async change(tx: SqlExecutor, { do: change, states, rows }: ChangeStep): Promise<RowPlace[]> {
    const numbers = states.map(stateNumber);
    const locked = await this.lock(tx, rows);
    const changed = locked.filter(({ isSent, state }) => !isSent && numbers.includes(state));
    const rowIds = changed.map(({ rowId }) => rowId);
    if (rowIds.length === 0) return [];
    if (change === 'requeue') await tx.run(this.sql.requeue(rowIds));
    else {
      await tx.run(this.sql.removeParked(rowIds));
      await this.wakeBehind(tx, changed);
    }
    return changed;
  }

  /** Again once that is committed: of two who remove neighbours side by side, neither sees before that the other's row goes. */
  wakeBehind(tx: SqlExecutor, removed: readonly RowPlace[]): Promise<void> {
    return this.wake.wake(tx, removed.filter(isBlocking));
  }

  /** Only the owner of a bucket publishes from it, and not past the end of its lease. */
  async cancelReady(tx: SqlExecutor, { rows }: ReadyStep): Promise<RowPlace[]> {
    const leases = (await tx.run(this.sql.lockLeases(placesOf(rows)))).rows;
    const isFree = ([, , , lasts, owned]: readonly unknown[]) =>
      ![lasts, owned].every((one) => this.dialect.isTrue(one));
    const free = new Set(leases.filter(isFree).map(([transport, bucket]) => `${String(transport)} ${String(bucket)}`));
    const ours = rows.filter(({ transport, bucket }) => free.has(`${transport} ${bucket}`));
    const places = ours.map(({ transport, bucket, seq }) => [transport, bucket, seq]);
    const removed = await this.remove(tx, this.sql.ready, places);
    return removed.map(([transport, bucket, , id]) => ({
      transport: Number(transport),
      bucket: Number(bucket),
      id: String(id),
    }));
  }

  /** @returns rows that were deleted */
  async remove(tx: SqlExecutor, { lock, remove }: Removal, rows: Rows): Promise<Rows> {
    const free = lock === undefined || rows.length === 0 ? rows : (await tx.run(lock(rows))).rows;
    if (free.length === 0) return [];
    const { rows: removed } = await tx.run(remove(free));
    return lock === undefined ? removed : free;
  }

  removeArchived(tx: SqlExecutor, rows: Rows): Promise<Rows> {
    return this.remove(tx, this.sql.archived, rows);
  }

  /** @returns how many dead rows block no longer */
  async release(tx: SqlExecutor, key: string, transports: readonly number[]): Promise<number> {
    const { ordering, buckets } = this.settings;
    const bucket = ordering === 'global' ? 0 : bucketOf(key, buckets);
    await tx.run(this.sql.lockLeases(transports.map((transport) => [transport, bucket])));
    let released = 0;
    for (const transport of transports)
      released += (await tx.run(this.sql.unblock.bind(transport, bucket, this.dialect.key(key)))).affected;
    const keys = transports.map((transport) => ({ transport, bucket, key }));
    await this.wake.wakeAtOnce(tx, keys);
    return released;
  }

  /** Locks a row, which nobody can take then until the commit. @returns whether somebody is sending it: with row locks it is locked then */
  async isSent(tx: SqlExecutor, row: EditStep['row']): Promise<boolean> {
    return !(await this.lock(tx, [row])).some(({ isSent }) => !isSent);
  }

  requeue(tx: SqlExecutor, rowId: string): Promise<unknown> {
    return tx.run(this.sql.requeue([rowId]));
  }

  private async lock(tx: SqlExecutor, rows: readonly EditStep['row'][]): Promise<Locked[]> {
    const leases = (await tx.run(this.sql.lockLeases(placesOf(rows)))).rows;
    const lasting = leases.filter(([, , , lasts]) => this.dialect.isTrue(lasts));
    const epochs = new Map(
      lasting.map(([transport, bucket, epoch]) => [`${String(transport)} ${String(bucket)}`, String(epoch)]),
    );
    const rowIds = rows.map(({ rowId }) => String(rowId)).sort(compareSeq);
    return (await tx.run(this.sql.lockParked(rowIds))).rows.map((row) => this.readLocked(row, epochs));
  }

  private readLocked(row: readonly unknown[], epochs: ReadonlyMap<string, string>): Locked {
    const [rowId, id, transport, bucket, key, state, blocking, epoch] = row;
    const text = this.dialect.readKey(key);
    return {
      rowId: String(rowId),
      id: String(id),
      transport: Number(transport),
      bucket: Number(bucket),
      key: text ?? '',
      state: Number(state),
      isBlocking: this.wake.holds(blocking, text),
      isSent: epoch !== null && epochs.get(`${String(transport)} ${String(bucket)}`) === String(epoch),
    };
  }
}

const isBlocking = (row: RowPlace | Locked): row is Locked => 'isBlocking' in row && row.isBlocking;

function placesOf(rows: readonly Pick<StoredRow, 'transport' | 'bucket'>[]): Place[] {
  const places = new Map(rows.map(({ transport, bucket }) => [`${transport} ${bucket}`, [transport, bucket] as const]));
  return [...places.values()].sort(([one, a], [other, b]) => one - other || a - b);
}
