import { unsuitable } from '../unsuitable.js';
import type { SqlConnection, SqlDatabase, SqlExecutor } from '../executor.js';
import type { Sql } from '../sql.js';
import type { ArchiveLayout, PartitionSession, PartitionStore } from '../partitions/partition-store.js';

/** Partitions as one database has them. */
export interface PartitionDialect {
  /** Whether the lock of all maintainers of these tables was free, as 1, and is this session's now. */
  readonly lock: Sql;
  readonly unlock: Sql;
  layout(db: SqlExecutor): Promise<ArchiveLayout>;
  session(connection: SqlConnection, lockTimeout: number): PartitionSession;
}

/** The archive in the database's own partitions. */
export class Partitions implements PartitionStore {
  constructor(
    private readonly database: SqlDatabase,
    private readonly dialect: PartitionDialect,
  ) {}

  layout(): Promise<ArchiveLayout> {
    return this.dialect.layout(this.database.connection('admin'));
  }

  async maintain<T>(lockTimeout: number, work: (session: PartitionSession) => Promise<T>): Promise<T | undefined> {
    const { lock, unlock, session } = this.dialect;
    if (this.database.alone === undefined) throw noSession();
    return this.database.alone(async (connection) => {
      if (Number((await connection.run(lock)).rows[0]?.[0]) !== 1) return undefined;
      try {
        return await work(session(connection, lockTimeout));
      } finally {
        // The server comes to the end of a session late, and the next pass would find the lock taken.
        await connection.run(unlock).catch(() => undefined);
      }
    });
  }
}

const noSession = (): Error =>
  unsuitable('The data layer of this outbox opens no session of its own, which partitions need.', 'Give it alone().');
