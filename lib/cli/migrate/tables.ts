import type { MigrationInterface, QueryRunner } from 'typeorm';
import type * as TypeOrmEntry from '../../data-layers/typeorm/index.js';
import { namesOf } from '../../data-layers/typeorm/dialect.js';
import type { OutboxMigrationOptions } from '../../data-layers/typeorm/index.js';
import { isMissing, openDataSource } from '../connect/open-tables.js';
import { loadPackage } from '../connect/packages.js';
import type { DatabaseSource } from '../connect/settings.js';

/** What tables were made with. */
export type Shape = Pick<OutboxMigrationOptions, 'buckets' | 'ordering' | 'coordination' | 'partitionedArchive'>;

/** What we use of TypeORM's DataSource. */
export interface MigratingDataSource {
  readonly migrations: readonly MigrationInterface[];
  createQueryRunner(mode: 'master'): QueryRunner;
  initialize(): Promise<MigratingDataSource>;
  destroy(): Promise<void>;
}
/** What we use of TypeORM's migrator. */
export interface Executor {
  transaction: 'all' | 'none' | 'each';
  getExecutedMigrations(): Promise<Executed[]>;
  executePendingMigrations(): Promise<Executed[]>;
  deleteMigration(migration: Executed): Promise<void>;
}
interface Executed {
  readonly name: string;
}
interface TypeOrm {
  readonly DataSource: new (options: object) => MigratingDataSource;
  readonly MigrationExecutor: new (dataSource: MigratingDataSource, runner: QueryRunner) => Executor;
}

/** The tables of one outbox, and the migrator that changes them. */
export interface Tables {
  readonly dataSource: MigratingDataSource;
  readonly isPostgres: boolean;
  /** `undefined`: they are not there. */
  readonly version: number | undefined;
  /** Of this release. */
  readonly latest: number;
  executor(runner: QueryRunner): Executor;
}

/**
 * Connects with the migrations of the outbox alone: those of the application are left to the application.
 * @param asked for tables that are not there; those that are there say it themselves
 */
export async function openMigrator(source: DatabaseSource, asked: Shape): Promise<Tables> {
  const { outboxMigrations } = await loadPackage<typeof TypeOrmEntry>('nestjs-outbox/typeorm', source.folder);
  const { DataSource, MigrationExecutor } = await loadPackage<TypeOrm>('typeorm', source.folder);
  const meta = await readMeta(source);
  const { prefix, schema } = source;
  const shape = meta === undefined ? asked : shapeOf(meta);
  const migrations = outboxMigrations({ prefix, ...(schema === undefined ? {} : { schema }), ...shape });
  const off = {
    entities: [],
    subscribers: [],
    synchronize: false,
    dropSchema: false,
    migrationsRun: false,
    logging: false,
  };
  const dataSource = await new DataSource({ ...source.options, ...off, migrations }).initialize();
  return {
    dataSource,
    isPostgres: source.options['type'] === 'postgres',
    version: meta === undefined ? undefined : Number(meta.get('version')),
    latest: Math.max(...dataSource.migrations.map(versionOf)),
    executor: (runner) => new MigrationExecutor(dataSource, runner),
  };
}

/** Which version a migration leads to; the first one is that of the tables. */
export function versionOf({ name = '' }: Pick<MigrationInterface, 'name'>): number {
  return Number(/^OutboxVersion(\d+)_/.exec(name)?.[1] ?? 1);
}

function shapeOf(meta: ReadonlyMap<string, string>): Shape {
  return {
    buckets: Number(meta.get('buckets')),
    ordering: meta.get('ordering') as NonNullable<Shape['ordering']>,
    coordination: meta.get('coordination') as NonNullable<Shape['coordination']>,
  };
}

/** @returns `undefined`: there are no tables, or they are only being made (MariaDB, MySQL) */
async function readMeta(source: DatabaseSource): Promise<ReadonlyMap<string, string> | undefined> {
  const dataSource = await openDataSource(source);
  try {
    const rows = await dataSource.query(`select name, value from ${namesOf(dataSource, source).meta}`);
    const meta = new Map(rows.map(({ name, value }) => [String(name), String(value)]));
    return meta.has('version') && meta.has('buckets') ? meta : undefined;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  } finally {
    await dataSource.destroy();
  }
}
