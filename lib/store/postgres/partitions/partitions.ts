import type { ArchiveLayout, PartitionSession, PartitionStore } from '../../partitions/partition-store.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import { OutboxConfigurationError } from '../../../outbox.errors.js';
import { literal, type TableNames } from '../../names.js';
import { statement } from '../statement.js';
import { readLayout } from './layout.js';
import { PostgresPartitionSession } from './session.js';

/** The archive in declarative partitions. */
export class PostgresPartitions implements PartitionStore {
  constructor(
    readonly database: SqlDatabase,
    readonly names: TableNames,
    readonly prefix: string,
  ) {}

  layout(): Promise<ArchiveLayout> {
    return readLayout(this.database.connection('admin'), this.names, this.prefix);
  }

  async maintain<T>(lockTimeout: number, work: (session: PartitionSession) => Promise<T>): Promise<T | undefined> {
    if (this.database.alone === undefined) throw noSession();
    return this.database.alone(async (connection) => {
      const lock = `hashtextextended(${literal(`nestjs-outbox partitions ${this.names.archive}`)}, 0)`;
      const [taken] = await first(connection, `select pg_catalog.pg_try_advisory_lock(${lock})`);
      if (taken !== 't') return undefined;
      try {
        return await work(new PostgresPartitionSession(connection, this.names, this.prefix, lockTimeout));
      } finally {
        // The server comes to the end of a session late, and the next pass would find the lock taken.
        await first(connection, `select pg_catalog.pg_advisory_unlock(${lock})`).catch(() => undefined);
      }
    });
  }
}

async function first(db: SqlExecutor, text: string): Promise<readonly unknown[]> {
  return (await db.run(statement(undefined, text).bind())).rows[0] ?? [];
}

const noSession = (): OutboxConfigurationError =>
  new OutboxConfigurationError(
    'UNSUPPORTED_DATABASE',
    'The data layer of this outbox opens no session of its own, which partitions need.',
  );
