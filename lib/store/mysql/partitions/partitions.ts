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

  /** The lock is released with its session, which is closed behind the work. */
  async maintain<T>(lockTimeout: number, work: (session: PartitionSession) => Promise<T>): Promise<T | undefined> {
    if (this.database.alone === undefined) throw noSession();
    const { schema, prefix } = this.settings;
    const lock = statement(undefined, 'select get_lock(?, 0)').bind(
      lockName({ ...(schema !== undefined && { schema }), prefix: `${prefix}partitions` }),
    );
    return this.database.alone(async (connection) => {
      if (Number((await connection.run(lock)).rows[0]?.[0]) !== 1) return undefined;
      return work(new MysqlPartitionSession(connection, this.names, this.settings, lockTimeout));
    });
  }
}

const noSession = (): OutboxConfigurationError =>
  new OutboxConfigurationError(
    'UNSUPPORTED_DATABASE',
    'The data layer of this outbox opens no session of its own, which partitions need.',
  );
