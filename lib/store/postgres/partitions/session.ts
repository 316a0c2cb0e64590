import type {
  ArchiveLayout,
  MoveReport,
  PartitionSession,
  PlannedPartition,
  PublishedSpan,
} from '../../partitions/partition-store.js';
import type { SqlConnection } from '../../executor.js';
import { literal, type TableNames } from '../../names.js';
import { untilFree } from '../../partitions/until-free.js';
import { MOVED } from '../columns.js';
import { convertArchive } from '../schema/archive.js';
import { postgresTables } from '../schema/tables.js';
import { statement } from '../statement.js';
import { ASIDE, CATCH_ALL, readLayout } from './layout.js';

type Run = (text: string) => Promise<readonly (readonly unknown[])[]>;

/** `lock_not_available`, `deadlock_detected`. */
const NOT_FREE: ReadonlySet<unknown> = new Set(['55P03', '40P01']);
const ROW = `${MOVED}, attempts, published_at`;

/** Each step is one transaction. */
export class PostgresPartitionSession implements PartitionSession {
  /** @internal */ readonly storage = postgresTables('').archive.storage;

  constructor(
    readonly connection: SqlConnection,
    readonly names: TableNames,
    readonly prefix: string,
    readonly lockTimeout: number,
  ) {}

  layout(): Promise<ArchiveLayout> {
    return readLayout(this.connection, this.names, this.prefix);
  }

  async span(where: Parameters<PartitionSession['span']>[0]): Promise<PublishedSpan | undefined> {
    const { names } = this;
    const table = { archive: names.archive, catchAll: names.object(CATCH_ALL), aside: names.object(ASIDE) }[where];
    const ms = (which: 'min' | 'max'): string => `extract(epoch from ${which}(published_at)) * 1000`;
    const { rows } = await this.connection.run(
      statement(undefined, `select ${ms('min')}, ${ms('max')} from ${table}`).bind(),
    );
    const [oldest, newest] = rows[0] ?? [];
    return oldest === null || oldest === undefined ? undefined : { oldest: Number(oldest), newest: Number(newest) };
  }

  /** Attached, not made as a partition: that would stop all who publish. */
  async create(partition: PlannedPartition): Promise<void> {
    const table = this.tableOf(partition.name);
    await this.change(`partition ${partition.name}`, async (run) => {
      await run(`create table ${table} (like ${this.names.archive} including all) with (${this.storage})`);
      await run(`alter table ${this.names.archive} attach partition ${table} ${bounds(partition)}`);
    });
  }

  async setAside(current: PlannedPartition | undefined): Promise<void> {
    const { archive } = this.names;
    const catchAll = this.names.object(CATCH_ALL);
    await this.change('the catch-all', async (run) => {
      await run(`lock table only ${archive} in access exclusive mode`);
      await run(`alter table ${archive} detach partition ${catchAll}`);
      await run(`alter table ${catchAll} rename to ${this.names.index(ASIDE)}`);
      await run(`create table ${catchAll} partition of ${archive} default with (${this.storage})`);
      if (current === undefined) return;
      await run(this.partitionOf(current));
    });
  }

  async moveBack(limit: number, keepFrom: number): Promise<MoveReport | undefined> {
    if (!(await this.layout()).aside) return undefined;
    const aside = this.names.object(ASIDE);
    const from = keepFrom === -Infinity ? literal('-infinity') : literal(new Date(keepFrom).toISOString());
    const [[gone, kept] = []] = await this.change('the rows beside the archive', (run) =>
      run(`with gone as (delete from ${aside} where ctid = any(array(select a.ctid from ${aside} a order by a.published_at limit ${limit})) returning ${ROW}),
        kept as (insert into ${this.names.archive} (${ROW}) select ${ROW} from gone where published_at >= ${from}::timestamptz returning 1)
        select (select count(*) from gone), (select count(*) from kept)`),
    );
    if (Number(gone) > 0) return { moved: Number(kept), removed: Number(gone) - Number(kept) };
    await this.change('the rows beside the archive', async (run) => {
      await run(`lock table ${aside} in access exclusive mode`);
      const [rest] = await run(`select 1 from ${aside} limit 1`);
      if (rest === undefined) await run(`drop table ${aside}`);
    });
    return undefined;
  }

  /** The whole table first, as whoever publishes or reads locks it first. */
  drop(name: string, before: number): Promise<boolean> {
    const table = this.tableOf(name);
    return this.change(`partition ${name}`, async (run) => {
      await run(`lock table only ${this.names.archive} in access exclusive mode`);
      await run(`lock table ${table} in access exclusive mode`);
      const [[isYoung] = []] = await run(
        `select coalesce(max(published_at) >= ${literal(new Date(before).toISOString())}::timestamptz, false) from ${table}`,
      );
      if (isYoung !== 'f') return false;
      await run(`drop table ${table}`);
      return true;
    });
  }

  /** With the first partition that is needed: the others are attached later, beside those who publish. */
  convert(partitions: readonly PlannedPartition[]): Promise<void> {
    return this.change('the archive', async (run) => {
      for (const text of convertArchive(this.names)) await run(text);
      const [[now] = []] = await run('select extract(epoch from clock_timestamp()) * 1000');
      const current = partitions.find(({ to }) => to > Number(now));
      if (current !== undefined) await run(this.partitionOf(current));
    });
  }

  /** @internal Where nobody else has the table. */ partitionOf(partition: PlannedPartition): string {
    const { archive } = this.names;
    return `create table ${this.tableOf(partition.name)} partition of ${archive} ${bounds(partition)} with (${this.storage})`;
  }

  /** @internal */ tableOf(name: string): string {
    return this.names.object(`archive_${name}`);
  }

  /** @internal */ change<T>(what: string, work: (run: Run) => Promise<T>): Promise<T> {
    const isLockTimeout = (error: unknown): boolean => NOT_FREE.has((error as { code?: unknown }).code);
    return untilFree(what, this.lockTimeout, isLockTimeout, () =>
      this.connection.transaction(async (tx) => {
        const run: Run = async (text) => (await tx.run(statement(undefined, text).bind())).rows;
        await run(`set local lock_timeout = ${this.lockTimeout}`);
        return work(run);
      }),
    );
  }
}

const bounds = ({ from, to }: PlannedPartition): string =>
  `for values from (${literal(new Date(from).toISOString())}) to (${literal(new Date(to).toISOString())})`;
