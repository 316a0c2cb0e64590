import type {
  ArchiveLayout,
  MoveReport,
  PartitionSession,
  PlannedPartition,
  PublishedSpan,
} from '../../partitions/partition-store.js';
import type { SqlConnection } from '../../executor.js';
import { quoteWith, type StoreSettings, type TableNames } from '../../names.js';
import { rowsOf, type Rows } from '../../rows-of.js';
import { statement } from '../../sql.js';
import { jsonRows, jsonTable, lookUp } from '../json-rows.js';
import { untilFree } from '../../schema/until-free.js';
import { errnoOf, inTransaction } from '../../retry.js';
import { LOCK_WAIT_TIMEOUT } from '../errors.js';
import { createPartitioned } from '../schema/archive.js';
import { mysqlTables } from '../schema/tables.js';
import { ASIDE, CATCH_ALL, readLayout } from './layout.js';

/**
 * Each change commits by itself. Rows that are moved keep their numbers: whoever reads the archive goes on where it was. The counter
 * of a table that is exchanged begins anew, so that a row is known by its time and its number.
 */
export class MysqlPartitionSession implements PartitionSession {
  private readonly row: string;

  constructor(
    readonly connection: SqlConnection,
    readonly names: TableNames,
    readonly settings: StoreSettings,
    readonly lockTimeout: number,
  ) {
    const columns = mysqlTables(settings).archive.columns.map(([name]) => `\`${name}\``);
    this.row = columns.join(', ');
  }

  layout(): Promise<ArchiveLayout> {
    return readLayout(this.connection, this.names, this.settings);
  }

  async span(where: Parameters<PartitionSession['span']>[0]): Promise<PublishedSpan | undefined> {
    const { archive } = this.names;
    const from = { archive, catchAll: `${archive} partition (${CATCH_ALL})`, aside: this.names.object(ASIDE) }[where];
    const ms = (which: 'min' | 'max'): string =>
      `timestampdiff(microsecond, '1970-01-01 00:00:00', ${which}(published_at)) div 1000`;
    const [row] = await this.run(`select ${ms('min')}, ${ms('max')} from ${from}`);
    const [oldest, newest] = row ?? [];
    return oldest === null || oldest === undefined ? undefined : { oldest: Number(oldest), newest: Number(newest) };
  }

  /** One by one: nobody publishes while a file is made. */
  async create(partition: PlannedPartition): Promise<undefined> {
    await this.change(
      `partition ${partition.name}`,
      `alter table ${this.names.archive} reorganize partition ${CATCH_ALL} into (${partitionSql(partition)},
      partition ${CATCH_ALL} values less than (maxvalue))`,
    );
  }

  /** What is published before `current` is there lands in the catch-all, and moves with its few rows. */
  async setAside(): Promise<void> {
    const aside = this.names.object(ASIDE);
    await this.run(`create table ${aside} like ${this.names.archive}`);
    await this.run(`alter table ${aside} remove partitioning`);
    const exchange = `alter table ${this.names.archive} exchange partition ${CATCH_ALL} with table ${aside}`;
    await this.change('the catch-all', exchange);
  }

  async moveBack(limit: number, keepFrom: number): Promise<MoveReport | undefined> {
    if (!(await this.layout()).aside) return undefined;
    const aside = this.names.object(ASIDE);
    const from = keepFrom === -Infinity ? '0001-01-01 00:00:00' : timeText(keepFrom);
    const report = await inTransaction(this.connection, async (tx) => {
      const rows = await rowsOf(
        tx,
        `select published_at, archive_id from ${aside} force index (by_time) order by published_at limit ${limit} for update`,
      );
      if (rows.length === 0) return undefined;
      const list = jsonRows(rows.map(([time, id]) => [String(time), BigInt(id as string)]));
      const those = `${lookUp(jsonTable({ t: 'datetime(6)', i: 'bigint unsigned' }), `${aside} o`)}
        on o.archive_id = k.i and o.published_at = k.t`;
      const insert = `insert into ${this.names.archive} (${this.row}) select ${this.row} from ${those} where o.published_at >= ?`;
      const { affected: moved } = await tx.run(statement(undefined, insert).bind(list, from));
      await tx.run(statement(undefined, `delete o from ${those}`).bind(list));
      return { moved, removed: rows.length - moved };
    });
    if (report === undefined) await this.change('the rows beside the archive', `drop table ${aside}`);
    return report;
  }

  /** Under the lock of the table nobody writes, or makes other partitions, between the look and the drop. */
  drop(name: string, before: number): Promise<boolean> {
    const { archive } = this.names;
    return this.patiently(`partition ${name}`, async () => {
      await this.run(`lock tables ${archive} write`);
      try {
        const partition = (await this.layout()).partitions.find((each) => each.name === name);
        if (partition === undefined || partition.to > before) return false;
        // Not by a condition: the server would conclude from the partition's bounds that no row can meet it.
        const newest = `select coalesce(max(published_at) >= ?, 0) from ${archive} partition (${quoteWith('`', name)})`;
        const [[isYoung] = []] = await this.run(newest, timeText(before));
        if (Number(isYoung) !== 0) return false;
        await this.run(`alter table ${archive} drop partition ${quoteWith('`', name)}`);
        return true;
      } finally {
        await this.run('unlock tables');
      }
    });
  }

  async convert(partitions: readonly PlannedPartition[]): Promise<void> {
    const { archive } = this.names;
    const next = this.names.object('archive_next');
    await this.run(`drop table if exists ${next}`); // of an attempt that failed: nobody wrote into it
    await this.run(createPartitioned(next, this.settings, partitions.map(partitionSql)));
    await this.change('the archive', `rename table ${archive} to ${this.names.object(ASIDE)}, ${next} to ${archive}`);
  }

  private async change(what: string, sql: string): Promise<void> {
    await this.patiently(what, () => this.run(sql));
  }

  /** The servers count in seconds. */
  private async patiently<T>(what: string, work: () => Promise<T>): Promise<T> {
    await this.run(`set session lock_wait_timeout = ${Math.ceil(this.lockTimeout / 1000)}`);
    const isLockTimeout = (error: unknown): boolean => errnoOf(error) === LOCK_WAIT_TIMEOUT;
    return untilFree({ what, lockTimeout: this.lockTimeout, isLockTimeout }, work);
  }

  private run(text: string, ...values: readonly unknown[]): Promise<Rows> {
    return rowsOf(this.connection, text, ...values);
  }
}

const partitionSql = ({ name, to }: PlannedPartition): string =>
  `partition ${name} values less than ('${timeText(to)}')`;

const timeText = (ms: number): string => new Date(ms).toISOString().replace('T', ' ').replace('Z', '');
