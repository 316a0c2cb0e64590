import type { ArchiveLayout, PartitionSession, PartitionStore } from '../../partitions/partition-store.js';
import type { SqlDatabase } from '../../executor.js';
import { OutboxConfigurationError } from '../../../outbox.errors.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { lockName } from '../schema/lock.js';
import { statement } from '../../sql.js';
import { readLayout } from './layout.js';
import { MysqlPartitionSession } from './session.js';

/** The archive in native partitions. */
export class MysqlPartitions implements PartitionStore {
  constructor(
    readonly database: SqlDatabase,
    readonly settings: StoreSettings,
    readonly names: TableNames,
  ) {}

  layout(): Promise<ArchiveLayout> {
    return readLayout(this.database.connection('admin'), this.names, this.settings);
  }

  async maintain<T>(lockTimeout: number, work: (session: PartitionSession) => Promise<T>): Promise<T | undefined> {
    if (this.database.alone === undefined) throw noSession();
    const { schema, prefix } = this.settings;
    const name = lockName({ ...(schema !== undefined && { schema }), prefix: `${prefix}partitions` });
    const lock = statement(undefined, 'select get_lock(?, 0)').bind(name);
    const unlock = statement(undefined, 'select release_lock(?)').bind(name);
    return this.database.alone(async (connection) => {
      if (Number((await connection.run(lock)).rows[0]?.[0]) !== 1) return undefined;
      try {
        return await work(new MysqlPartitionSession(connection, this.names, this.settings, lockTimeout));
      } finally {
        // The server comes to the end of a session late, and the next pass would find the lock taken.
        await connection.run(unlock).catch(() => undefined);
      }
    });
  }
}

const noSession = (): OutboxConfigurationError =>
  new OutboxConfigurationError(
    'UNSUPPORTED_DATABASE',
    'The data layer of this outbox opens no session of its own, which partitions need.',
  );
