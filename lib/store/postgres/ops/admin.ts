import type { SqlConnection, SqlExecutor } from '../../executor.js';
import type { ParkedState } from '../../../outbox-message.js';
import type { Change } from '../../admin-store.js';
import type { BulkRow } from '../../bulk-store.js';
import type { StoredRow } from '../../inspect-store.js';
import { inTransaction } from '../../retry.js';
import type { Also, RowChanges } from '../../sql/bulk.js';
import type { ParkedPlace } from '../../edit/edit-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { plainArray } from '../arrays.js';
import { stateNumber } from '../../parked-state.js';
import { PostgresDedupKeys } from '../ready/dedup-keys.js';
import { adminStatements, type AdminStatements } from './admin-statements.js';
import { PostgresUnowned } from './cancel-unowned.js';

/** What operators do to parked messages. Never to one that is being sent. */
export class PostgresAdmin implements RowChanges {
  private readonly sql: AdminStatements;
  private readonly unowned: PostgresUnowned;
  readonly keys: PostgresDedupKeys;
  private readonly isGlobal: boolean;

  constructor(
    readonly connection: () => SqlConnection,
    names: TableNames,
    settings: StoreSettings,
  ) {
    this.sql = adminStatements(names, settings);
    this.keys = new PostgresDedupKeys(names);
    this.unowned = new PostgresUnowned(names, this.keys);
    this.isGlobal = settings.ordering === 'global';
  }

  change(change: Change, states: readonly ParkedState[], rows: readonly BulkRow[], also: Also): Promise<string[]> {
    const found = rows.map(({ rowId, transport, bucket }) => [rowId, String(transport), String(bucket)]);
    return this.changed((tx) => this.changeIn(tx, change, states, found), also);
  }

  cancelReady(rows: readonly StoredRow[], also: (asked: number) => Also): Promise<string[]> {
    const found = rows.map(({ transport, bucket, seq }) => [String(transport), String(bucket), seq]);
    return this.changed((tx) => this.unowned.removeIn(tx, found), also(rows.length));
  }

  private changed(change: (tx: SqlExecutor) => Promise<string[]>, also: Also): Promise<string[]> {
    return inTransaction(this.connection(), async (tx) => {
      const ids = await change(tx);
      await also(tx, ids.length);
      return ids;
    });
  }

  /** @returns how many dead rows block no longer */
  async releaseIn(tx: SqlExecutor, filter: { key: string; transport?: number }): Promise<number> {
    const transport = filter.transport ?? null;
    await tx.run(this.sql.lockKey.bind(transport, transport, filter.key));
    const { affected } = await tx.run(this.sql.unblockDead.bind(transport, transport, filter.key, filter.key));
    await tx.run(this.sql.wakeKey.bind(transport, transport, filter.key, filter.key));
    return affected;
  }

  /**
   * The lease rows are locked before the rows are looked at again: what `sending` means cannot change until the commit,
   * so that no publish starts after a cancellation was reported.
   * @param found parked id, transport, bucket
   * @returns the id of each row that was changed
   */
  private async changeIn(
    tx: SqlExecutor,
    change: Change,
    states: readonly ParkedState[],
    found: readonly (readonly unknown[])[],
  ): Promise<string[]> {
    const unique = [...new Map(found.map((row) => [`${String(row[1])} ${String(row[2])}`, row])).values()];
    await tx.run(
      this.sql.lock.bind(
        plainArray(unique.map((row) => row[1] as string)),
        plainArray(unique.map((row) => row[2] as string)),
      ),
    );
    const parkedIds = plainArray(found.map((row) => row[0] as string));
    const numbers = plainArray(states.map((state) => String(stateNumber(state))));
    const { rows } = await tx.run(this.sql.change[change].bind(parkedIds, numbers));
    const ids = rows.map(([id]) => id as string);
    if (change !== 'requeue') {
      await this.wakeKeys(tx, rows);
      await this.keys.free(tx, ids);
    }
    return ids;
  }

  /** Locks its lease, and then the row: nobody can take it until the commit. With row locks one that is being published is passed by. */
  async hold(tx: SqlExecutor, rowId: string): Promise<'held' | 'sending' | 'gone'> {
    await tx.run(this.sql.lockLease.bind(rowId));
    const [locked] = (await tx.run(this.sql.lockRow.bind(rowId))).rows;
    const [seen] = (await tx.run(this.sql.isSent.bind(rowId))).rows;
    if (seen === undefined) return 'gone';
    return locked === undefined || seen[0] === 't' ? 'sending' : 'held';
  }

  requeueHeld(tx: SqlExecutor, { rowId, state }: ParkedPlace): Promise<unknown> {
    return tx.run(this.sql.change.requeue.bind(plainArray([rowId]), plainArray([stateNumber(state)])));
  }

  /** The keys whose blocking rows were deleted go on with their next row. Rows: id, transport, bucket, key, blocking. */
  async wakeKeys(tx: SqlExecutor, rows: readonly (readonly unknown[])[]): Promise<void> {
    const held = rows.filter((row) => row[4] === 't' && (row[3] !== null || this.isGlobal));
    if (held.length > 0) await tx.run(this.sql.wakeNext.bind(...this.sql.keyArrays(held)));
  }
}
