import type {
  ArchiveLayout,
  MoveReport,
  PartitionSession,
  PlannedPartition,
  PublishedSpan,
} from '../../partitions/partition-store.js';
import type { SqlConnection } from '../../executor.js';
import { literal, type TableNames } from '../../names.js';
import { untilFree } from '../../schema/until-free.js';
import { MOVED } from '../columns.js';
import { oidOf } from '../schema/catalog.js';
import { convertArchive } from '../schema/archive.js';
import { postgresTables } from '../schema/tables.js';
import { rowsOf } from '../statement.js';
import { ASIDE, CATCH_ALL, readLayout } from './layout.js';

interface Step {
  run(text: string): Promise<readonly (readonly unknown[])[]>;
  layout(): Promise<ArchiveLayout>;
}

/** `duplicate_table`: somebody detached it, and kept it. `check_violation`: published where a period began a moment ago. */
const IN_THE_WAY: ReadonlyMap<unknown, string> = new Map([
  ['42P07', 'another table has its name, and is no partition of the archive: rename or drop that one'],
  ['23514', 'rows for it came into the catch-all meanwhile'],
]);
/** `lock_not_available`, `deadlock_detected`. */
const NOT_FREE: ReadonlySet<unknown> = new Set(['55P03', '40P01']);
const ROW = `${MOVED}, attempts, published_at`;

/** Each step is one transaction. */
export class PostgresPartitionSession implements PartitionSession {
  private readonly storage = postgresTables('').archive.storage;

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
    const rows = await rowsOf(this.connection, `select ${ms('min')}, ${ms('max')} from ${table}`);
    const [oldest, newest] = rows[0] ?? [];
    return oldest === null || oldest === undefined ? undefined : { oldest: Number(oldest), newest: Number(newest) };
  }

  /** Attached, not made as a partition: that would stop all who publish. */
  async create(partition: PlannedPartition): Promise<string | undefined> {
    const table = this.tableOf(partition.name);
    const made = this.change(`partition ${partition.name}`, async (step) => {
      await step.run(`create table ${table} (like ${this.names.archive} including all) with (${this.storage})`);
      await step.run(`alter table ${this.names.archive} attach partition ${table} ${bounds(partition)}`);
      await this.giveToOwner(step, table);
    });
    return made.then(
      () => undefined,
      (error: unknown) => {
        const why = IN_THE_WAY.get((error as { code?: unknown }).code);
        if (why === undefined) throw error;
        return why;
      },
    );
  }

  async setAside(current: PlannedPartition | undefined): Promise<void> {
    const { archive } = this.names;
    const catchAll = this.names.object(CATCH_ALL);
    await this.change('the catch-all', async (step) => {
      await step.run(`lock table only ${archive} in access exclusive mode`);
      await step.run(`alter table ${archive} detach partition ${catchAll}`);
      await step.run(`alter table ${catchAll} rename to ${this.names.index(ASIDE)}`);
      await step.run(`create table ${catchAll} partition of ${archive} default with (${this.storage})`);
      await this.giveToOwner(step, catchAll);
      if (current !== undefined) await this.makeAtOnce(step, current);
    });
  }

  async moveBack(limit: number, keepFrom: number): Promise<MoveReport | undefined> {
    if (!(await this.layout()).aside) return undefined;
    const aside = this.names.object(ASIDE);
    const from = keepFrom === -Infinity ? literal('-infinity') : literal(new Date(keepFrom).toISOString());
    const [[gone, kept] = []] = await this.change('the rows beside the archive', ({ run }) =>
      run(`with gone as (delete from ${aside} where ctid = any(array(select a.ctid from ${aside} a order by a.published_at limit ${limit})) returning ${ROW}),
        kept as (insert into ${this.names.archive} (${ROW}) select ${ROW} from gone where published_at >= ${from}::timestamptz returning 1)
        select (select count(*) from gone), (select count(*) from kept)`),
    );
    if (Number(gone) > 0) return { moved: Number(kept), removed: Number(gone) - Number(kept) };
    await this.change('the rows beside the archive', async ({ run }) => {
      await run(`lock table ${aside} in access exclusive mode`);
      const [rest] = await run(`select 1 from ${aside} limit 1`);
      if (rest === undefined) await run(`drop table ${aside}`);
    });
    return undefined;
  }

  /**
   * The whole table first, as whoever publishes or reads locks it first. Then what the catalog says: somebody may have detached the
   * partition to keep it.
   */
  drop(name: string, before: number): Promise<boolean> {
    const table = this.tableOf(name);
    return this.change(`partition ${name}`, async ({ run, layout }) => {
      await run(`lock table only ${this.names.archive} in access exclusive mode`);
      const partition = (await layout()).partitions.find((each) => each.name === name);
      if (partition === undefined || partition.to > before) return false;
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
    return this.change('the archive', async (step) => {
      for (const text of convertArchive(this.names)) await step.run(text);
      await this.giveToOwner(step, this.names.object(CATCH_ALL));
      const [[now] = []] = await step.run('select extract(epoch from clock_timestamp()) * 1000');
      const current = partitions.find(({ to }) => to > Number(now));
      if (current !== undefined) await this.makeAtOnce(step, current);
    });
  }

  /** Where nobody else has the archive. */
  private async makeAtOnce(step: Step, partition: PlannedPartition): Promise<void> {
    const table = this.tableOf(partition.name);
    await step.run(
      `create table ${table} partition of ${this.names.archive} ${bounds(partition)} with (${this.storage})`,
    );
    await this.giveToOwner(step, table);
  }

  /** Whoever has the rights of the archive's owner makes partitions: each belongs to the owner, so that all of them may drop it. */
  private async giveToOwner({ run }: Step, table: string): Promise<void> {
    const [[owner] = []] = await run(
      `select pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(c.relowner)) from pg_catalog.pg_class c
       where c.oid = ${oidOf(this.names.archive)} and pg_catalog.pg_get_userbyid(c.relowner) <> current_user`,
    );
    if (owner !== undefined) await run(`alter table ${table} owner to ${String(owner)}`);
  }

  private tableOf(name: string): string {
    return this.names.object(`archive_${name}`);
  }

  private change<T>(what: string, work: (step: Step) => Promise<T>): Promise<T> {
    const isLockTimeout = (error: unknown): boolean => NOT_FREE.has((error as { code?: unknown }).code);
    return untilFree({ what, lockTimeout: this.lockTimeout, isLockTimeout }, () =>
      this.connection.transaction(async (tx) => {
        const run: Step['run'] = (text) => rowsOf(tx, text);
        await run(`set local lock_timeout = ${this.lockTimeout}`);
        return work({ run, layout: () => readLayout(tx, this.names, this.prefix) });
      }),
    );
  }
}

const bounds = ({ from, to }: PlannedPartition): string =>
  `for values from (${literal(new Date(from).toISOString())}) to (${literal(new Date(to).toISOString())})`;
