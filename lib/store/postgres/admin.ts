import type { SqlConnection, SqlExecutor } from '../executors/executor.js';
import type { AdminStore, MessageFilter, OperatorReport, TransportStats } from '../admin-store.js';
import type { StoreSettings, TableNames } from '../schema/names.js';
import { plainArray } from './arrays.js';
import { adminStatements, type AdminStatements, type Change } from './admin-statements.js';
import { PostgresTooLate } from './admin-too-late.js';
import { readStats, statsStatement } from './stats.js';

/** What operators and the application do to parked messages. Never to one that is being sent. */
export class PostgresAdmin implements AdminStore {
  /** @internal */ readonly sql: AdminStatements;
  /** @internal */ readonly statsSql;
  /** @internal */ readonly tooLate: PostgresTooLate;

  constructor(
    readonly connection: () => SqlConnection,
    names: TableNames,
    settings: StoreSettings,
  ) {
    this.sql = adminStatements(names, settings);
    this.statsSql = statsStatement(names, settings);
    this.tooLate = new PostgresTooLate(connection, names, settings);
  }

  requeue(filter: MessageFilter): Promise<OperatorReport> {
    return this.change('requeue', filter);
  }
  discard(filter: MessageFilter): Promise<OperatorReport> {
    return this.change('discard', filter);
  }
  cancel(filter: MessageFilter): Promise<OperatorReport> {
    return this.change('cancel', filter);
  }

  async release(filter: { key: string; transport?: number }): Promise<{ released: number }> {
    const transport = filter.transport ?? null;
    return this.connection().transaction(async (tx) => {
      await tx.run(this.sql.lockKey.bind(transport, transport, filter.key));
      const { affected } = await tx.run(this.sql.unblockDead.bind(transport, transport, filter.key, filter.key));
      await tx.run(this.sql.wakeKey.bind(transport, transport, filter.key, filter.key));
      return { released: affected };
    });
  }

  async stats(): Promise<TransportStats[]> {
    return readStats(await this.connection().run(this.statsSql.bind()));
  }

  /** @internal */ async change(change: Change, filter: MessageFilter): Promise<OperatorReport> {
    const ids = filter.ids === undefined ? undefined : [...new Set(filter.ids)];
    const { done, sawAll } = await this.connection().transaction((tx) => this.changeIn(tx, change, filter, ids));
    if (ids === undefined) {
      return { done, tooLate: await this.tooLate.byFilter(change, filter, sawAll), notFound: [] };
    }
    return { done, ...(await this.tooLate.byIds(ids.filter((id) => !done.includes(id)))) };
  }

  /**
   * The lease rows are locked before the rows are looked at again: what `sending` means cannot change until the commit,
   * so that no publish starts after a cancellation was reported.
   */
  /** @internal */ async changeIn(
    tx: SqlExecutor,
    change: Change,
    filter: MessageFilter,
    ids: readonly string[] | undefined,
  ): Promise<{ done: string[]; sawAll: boolean }> {
    const list = ids === undefined ? null : plainArray(ids);
    const { transport = null, key = null, topic = null, type = null } = filter;
    const find = ids === undefined ? this.sql.findBy[change] : this.sql.findIds[change];
    const values = [transport, transport, key, key, topic, topic, type, type, filter.limit];
    const { rows } = await tx.run(find.bind(...(list === null ? [] : [list]), ...values));
    if (rows.length === 0) return { done: [], sawAll: true };
    const unique = [...new Map(rows.map((row) => [`${String(row[1])} ${String(row[2])}`, row])).values()];
    await tx.run(
      this.sql.lock.bind(
        plainArray(unique.map((row) => row[1] as string)),
        plainArray(unique.map((row) => row[2] as string)),
      ),
    );
    const changed = await tx.run(this.sql.change[change].bind(plainArray(rows.map((row) => row[0] as string))));
    if (change !== 'requeue') await this.wakeKeys(tx, changed.rows);
    return { done: [...new Set(changed.rows.map((row) => row[0] as string))], sawAll: rows.length < filter.limit };
  }

  /** @internal The keys whose blocking rows were deleted go on with their next row. Rows: id, transport, bucket, key, blocking. */
  async wakeKeys(tx: SqlExecutor, rows: readonly (readonly unknown[])[]): Promise<void> {
    const held = rows.filter((row) => row[4] === 't' && row[3] !== null);
    if (held.length > 0) await tx.run(this.sql.wakeNext.bind(...this.sql.keyArrays(held)));
  }
}
