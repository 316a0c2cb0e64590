import type { DataSource, MigrationInterface, QueryRunner } from 'typeorm';
import type { SchemaSession } from '../../store/schema/session.js';
import type { OutboxDialect, OutboxSchemaOptions } from '../drivers/outbox-sql.js';
import type { Upgrade, Way } from '../tables/change.js';
import { stepsOf } from '../tables/steps.js';
import { connectionSchema, dialectOf } from './dialect.js';

export type { Upgrade };

export interface OutboxMigrationOptions extends OutboxSchemaOptions {
  /** Default: what the DataSource is. */
  dialect?: OutboxDialect;
  /** Whether reverting drops messages that are not published, dead ones too. Default false: it is refused. */
  dropUnpublished?: boolean;
}

/**
 * Migration classes for the `migrations` of a DataSource, to be run and reverted by TypeORM's own migrator. Reverting
 * the first one drops the tables; while messages in them are not published it is refused (`TABLES_NOT_EMPTY`).
 */
export function outboxMigrations(options: OutboxMigrationOptions = {}): (new () => MigrationInterface)[] {
  return migrationsOf(options);
}

export function migrationsOf(
  options: OutboxMigrationOptions,
  upgrades?: readonly Upgrade[],
): (new () => MigrationInterface)[] {
  return stepsOf(options, upgrades).map(({ name, run }) => {
    const migrate = async (runner: QueryRunner, way: Way): Promise<void> => {
      const dataSource = dataSourceOf(runner);
      const { dialect = dialectOf(dataSource) } = options;
      const beside = (): ReturnType<typeof sessionOf> => sessionOf(dataSource.createQueryRunner('master'));
      await run({ session: sessionOf(runner), dialect, schema: connectionSchema(dataSource), beside }, way);
    };
    return class implements MigrationInterface {
      readonly name = name;
      async up(runner: QueryRunner): Promise<void> {
        await migrate(runner, 'up');
      }
      async down(runner: QueryRunner): Promise<void> {
        await migrate(runner, 'down');
      }
    };
  });
}

/** TypeORM gives rows as objects, and for a statement without rows whatever the driver says. */
const sessionOf = (runner: QueryRunner) => ({
  get isTransactionActive() {
    return runner.isTransactionActive;
  },
  query: async (...[sql, values]: Parameters<SchemaSession['query']>) => {
    const rows: unknown = await runner.query(sql, values);
    return Array.isArray(rows) ? rows.map((row) => Object.values(Object(row) as object) as unknown[]) : [];
  },
  connect: () => runner.connect(),
  release: () => runner.release(),
});

/** TypeORM 1.x calls it `dataSource`, 0.3 `connection`. */
function dataSourceOf(runner: QueryRunner): DataSource {
  return (runner as Partial<QueryRunner>).dataSource ?? runner.connection;
}
