import type { SqlConnection, SqlExecutor } from '../executors/executor.js';
import type { AdminStore, MessageFilter, OperatorReport, TransportStats } from '../admin-store.js';
import type { StoreSettings, TableNames } from '../schema/names.js';
import { plainArray } from './arrays.js';
import { adminStatements, type AdminStatements, type Change } from './admin-statements.js';
import { readStats, statsStatement } from './stats.js';

/** SQLSTATE of a statement that ran out of time. */
const CANCELED = '57014';

/** What operators and the application do to parked messages. Never to one that is being sent. */
export class PostgresAdmin implements AdminStore {
  /** @internal */ readonly sql: AdminStatements;
  /** @internal */ readonly statsSql;

  constructor(
    readonly connection: () => SqlConnection,
    names: TableNames,
    settings: StoreSettings,
  ) {
    this.sql = adminStatements(names, settings);
    this.statsSql = statsStatement(names, settings);
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
    const done = await this.connection().transaction((tx) => this.changeIn(tx, change, filter, ids));
    if (ids === undefined) return { done, tooLate: [], notFound: [] };
    return { done, ...(await this.explain(ids.filter((id) => !done.includes(id)))) };
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
  ): Promise<string[]> {
    const list = ids === undefined ? null : plainArray(ids);
    const { transport = null, key = null, topic = null, type = null } = filter;
    const find = ids === undefined ? this.sql.findBy[change] : this.sql.findIds[change];
    const values = [transport, transport, key, key, topic, topic, type, type, filter.limit];
    const { rows } = await tx.run(find.bind(...(list === null ? [] : [list]), ...values));
    if (rows.length === 0) return [];
    const unique = [...new Map(rows.map((row) => [`${String(row[1])} ${String(row[2])}`, row])).values()];
    await tx.run(
      this.sql.lock.bind(
        plainArray(unique.map((row) => row[1] as string)),
        plainArray(unique.map((row) => row[2] as string)),
      ),
    );
    const changed = await tx.run(this.sql.change[change].bind(plainArray(rows.map((row) => row[0] as string))));
    if (change !== 'requeue') await this.wakeKeys(tx, changed.rows);
    return [...new Set(changed.rows.map((row) => row[0] as string))];
  }

  /** @internal The keys whose blocking rows were deleted go on with their next row. Rows: id, transport, bucket, key, blocking. */
  async wakeKeys(tx: SqlExecutor, rows: readonly (readonly unknown[])[]): Promise<void> {
    const held = rows.filter((row) => row[4] === 't' && row[3] !== null);
    if (held.length > 0) await tx.run(this.sql.wakeNext.bind(...this.sql.keyArrays(held)));
  }

  /**
   * Messages move only from ready to parked, so that one which is in neither when looked for in this order, and not in
   * parked once more, was never in both looks' gap: it is nowhere.
   */
  /** @internal */ async explain(ids: readonly string[]): Promise<{ tooLate: string[]; notFound: string[] }> {
    if (ids.length === 0) return { tooLate: [], notFound: [] };
    let there = await this.search(ids);
    const gone = ids.filter((id) => !there.has(id));
    if (gone.length > 0) {
      const again = await this.connection().run(this.sql.inParked.bind(plainArray(gone)));
      there = new Set([...there, ...again.rows.map((row) => row[0] as string)]);
    }
    return { tooLate: ids.filter((id) => there.has(id)), notFound: ids.filter((id) => !there.has(id)) };
  }

  /** @internal With a backlog too long to be searched in time, every id may be in it: nobody is told that it is gone. */
  async search(ids: readonly string[]): Promise<Set<string>> {
    try {
      const { rows } = await this.connection().transaction(async (tx) => {
        await tx.run(this.sql.searchLimits.bind());
        return tx.run(this.sql.whereabouts.bind(plainArray(ids), plainArray(ids)));
      });
      return new Set(rows.map((row) => row[0] as string));
    } catch (error) {
      if ((error as { code?: string }).code !== CANCELED) throw error;
      return new Set(ids);
    }
  }
}
