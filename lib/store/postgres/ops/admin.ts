import type { SqlConnection, SqlExecutor } from '../../executor.js';
import {
  LEFT_COUNT_LIMIT,
  type AdminStore,
  type MessageFilter,
  type OperatorReport,
  type TransportStats,
  type Change,
  type GlanceRequest,
  type TransportGlance,
} from '../../admin-store.js';
import type { Deleted } from '../../elsewhere.js';
import { meansReady, statesOf, transactionsOf } from '../../operator-rows.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { Sql } from '../../sql.js';
import { plainArray } from '../arrays.js';
import { adminStatements, type AdminStatements } from './admin-statements.js';
import { stateNumber } from '../columns.js';
import { inTransaction } from '../retry.js';
import { PostgresTooLate } from './admin-too-late.js';
import { PostgresUnowned } from './cancel-unowned.js';
import { PostgresDedupKeys } from '../ready/dedup-keys.js';
import { PostgresGlance } from './glance.js';
import { byTopicStatement, readStats, statsStatement } from './stats.js';

/** What operators and the application do to parked messages. Never to one that is being sent. */
export class PostgresAdmin implements AdminStore {
  /** @internal */ readonly sql: AdminStatements;
  /** @internal */ readonly statsSql;
  /** @internal */ readonly byTopicSql;
  /** @internal */ readonly tooLate: PostgresTooLate;
  /** @internal */ readonly glances: PostgresGlance;
  /** @internal */ readonly unowned: PostgresUnowned;
  /** @internal */ readonly keys: PostgresDedupKeys;
  /** @internal */ readonly isGlobal: boolean;

  constructor(
    readonly connection: () => SqlConnection,
    names: TableNames,
    /** @internal */ readonly settings: StoreSettings,
  ) {
    this.sql = adminStatements(names, settings);
    this.statsSql = statsStatement(names, settings);
    this.byTopicSql = byTopicStatement(names);
    this.tooLate = new PostgresTooLate(connection, names, settings);
    this.glances = new PostgresGlance(this.tooLate, names, settings);
    this.keys = new PostgresDedupKeys(names);
    this.unowned = new PostgresUnowned(connection, names, { search: this.tooLate, keys: this.keys });
    this.isGlobal = settings.ordering === 'global';
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
    return { released: await inTransaction(this.connection(), (tx) => this.releaseIn(tx, filter)) };
  }

  /** @returns how many dead rows block no longer */
  async releaseIn(tx: SqlExecutor, filter: { key: string; transport?: number }): Promise<number> {
    const transport = filter.transport ?? null;
    await tx.run(this.sql.lockKey.bind(transport, transport, filter.key));
    const { affected } = await tx.run(this.sql.unblockDead.bind(transport, transport, filter.key, filter.key));
    await tx.run(this.sql.wakeKey.bind(transport, transport, filter.key, filter.key));
    return affected;
  }

  async count(change: Change, filter: MessageFilter): Promise<number> {
    const { rows } = await this.connection().run(this.meant('count', change, filter, filter.ids));
    return Number(rows[0]?.[0]);
  }

  async stats(): Promise<TransportStats[]> {
    return readStats(await this.connection().run(this.statsSql.bind()), this.settings);
  }

  async parkedByTopic(transport: number, limit: number): Promise<ReadonlyMap<string, number>> {
    const { rows } = await this.connection().run(this.byTopicSql.bind(transport, limit, transport, limit));
    return new Map(rows.map(([topic, count]) => [topic as string, Number(count)]));
  }

  glance(request: GlanceRequest): Promise<TransportGlance[] | undefined> {
    return this.glances.look(request);
  }

  /** @internal When a transaction fails, those before it stay. */
  async change(change: Change, filter: MessageFilter): Promise<OperatorReport> {
    const ids = filter.ids === undefined ? undefined : [...new Set(filter.ids)];
    const { rows } = await this.connection().run(this.meant('find', change, filter, ids));
    const more = rows.length < filter.limit ? 0 : await this.countMore(change, filter, ids);
    const changed: Deleted[] = [];
    for (const some of transactionsOf(rows, change)) {
      changed.push(...(await inTransaction(this.connection(), (tx) => this.changeIn(tx, change, filter, some))));
    }
    if (change === 'cancel' && meansReady(filter))
      changed.push(...(await this.unowned.cancel(filter, ids, filter.limit - rows.length)));
    const left = change === 'cancel' ? await this.tooLate.elsewhere(changed, filter) : new Set<string>();
    const done = new Set(changed.map(({ id }) => id).filter((id) => !left.has(id)));
    if (ids === undefined) {
      const late = await this.tooLate.byFilter(change, filter, rows.length < filter.limit);
      const tooLate = [...new Set([...left, ...late])].filter((id) => !done.has(id));
      return { done: [...done], tooLate: tooLate.slice(0, filter.limit), notFound: [], left: more };
    }
    const others = ids.filter((id) => !done.has(id) && !left.has(id));
    const { tooLate, notFound } = await this.tooLate.byIds(others, filter);
    return { done: [...done], tooLate: [...left, ...tooLate], notFound, left: more };
  }

  /** @internal What the limit left out. */
  async countMore(change: Change, filter: MessageFilter, ids: readonly string[] | undefined): Promise<number> {
    const all = { ...filter, limit: filter.limit + LEFT_COUNT_LIMIT };
    const { rows } = await this.connection().run(this.meant('count', change, all, ids));
    return Math.max(0, Number(rows[0]?.[0]) - filter.limit);
  }

  /** @internal */ meant(
    what: 'find' | 'count',
    change: Change,
    filter: MessageFilter,
    ids: readonly string[] | undefined,
  ): Sql {
    const { transport = null, key = null, topic = null, type = null, limit } = filter;
    const states = numbersOf(change, filter);
    const values = [states, transport, transport, key, key, topic, topic, type, type, limit];
    return ids === undefined
      ? this.sql[`${what}By`].bind(...values)
      : this.sql[`${what}Ids`].bind(plainArray(ids), ...values);
  }

  /**
   * The lease rows are locked before the rows are looked at again: what `sending` means cannot change until the commit,
   * so that no publish starts after a cancellation was reported.
   * @param found parked id, transport, bucket
   * @returns what was changed
   */
  async changeIn(
    tx: SqlExecutor,
    change: Change,
    filter: Pick<MessageFilter, 'states'>,
    found: readonly (readonly unknown[])[],
  ): Promise<Deleted[]> {
    const unique = [...new Map(found.map((row) => [`${String(row[1])} ${String(row[2])}`, row])).values()];
    await tx.run(
      this.sql.lock.bind(
        plainArray(unique.map((row) => row[1] as string)),
        plainArray(unique.map((row) => row[2] as string)),
      ),
    );
    const parkedIds = plainArray(found.map((row) => row[0] as string));
    const { rows } = await tx.run(this.sql.change[change].bind(parkedIds, numbersOf(change, filter)));
    if (change !== 'requeue') {
      await this.wakeKeys(tx, rows);
      const ids = rows.map(([id]) => id as string);
      await this.keys.free(tx, ids);
    }
    return rows.map(([id, transport, bucket]) => ({
      id: id as string,
      transport: Number(transport),
      bucket: Number(bucket),
    }));
  }

  /** @internal The keys whose blocking rows were deleted go on with their next row. Rows: id, transport, bucket, key, blocking. */
  async wakeKeys(tx: SqlExecutor, rows: readonly (readonly unknown[])[]): Promise<void> {
    const held = rows.filter((row) => row[4] === 't' && (row[3] !== null || this.isGlobal));
    if (held.length > 0) await tx.run(this.sql.wakeNext.bind(...this.sql.keyArrays(held)));
  }
}

const numbersOf = (change: Change, filter: Pick<MessageFilter, 'states'>): string =>
  plainArray(statesOf(change, filter).map((state) => String(stateNumber(state))));
