import { createConnection } from 'mysql2/promise';
import { createTestDatabase, type TestDatabase } from './databases.js';
import { MariaDbStores } from './mariadb-store.js';
import type { OwnNode } from './own-database.js';
import type { DatabaseKind } from './services.js';

/** Of numbers and texts the values that matter; a server that lacks one leaves it out. */
const GIVEN: Readonly<Record<string, string>> = {
  sql_select_limit: '1',
  max_join_size: '1',
  completion_type: `'CHAIN'`,
  group_concat_max_len: '4',
  div_precision_increment: '0',
  max_sort_length: '64',
  max_error_count: '0',
  lc_time_names: `'de_DE'`,
  cte_max_recursion_depth: '0',
  max_recursive_iterations: '0',
  range_optimizer_max_mem_size: '1',
  tmp_table_size: '1024',
  sort_buffer_size: '32768',
  default_storage_engine: `'MEMORY'`,
};
/** The application has transactions, and may write. */
const OF_THE_APPLICATION = ['autocommit', 'tx_read_only', 'transaction_read_only', 'profiling'];
/** Its transactions end as it means it, and it may read. */
const SESSION = 'set session completion_type = 0, sql_big_selects = 1';

/** On a server that gives every session another value of each setting than is usual. */
export class GivenSettingsStores extends MariaDbStores {
  server: OwnNode | undefined;

  constructor(
    kind: 'mariadb' | 'mysql',
    readonly startServer: () => Promise<OwnNode>,
  ) {
    super(kind, {}, SESSION);
  }

  override async createDatabase(): Promise<TestDatabase<DatabaseKind>> {
    this.server = await this.startServer();
    const database = await createTestDatabase(this.kind, this.server.url);
    const admin = await createConnection(this.server.url);
    const [rows] = await admin.query('show session variables');
    const switches = (rows as { Variable_name: string; Value: string }[]).flatMap(({ Variable_name, Value }) =>
      ['ON', 'OFF'].includes(Value) ? [[Variable_name, Value === 'ON' ? 'OFF' : 'ON'] as const] : [],
    );
    for (const [name, value] of [...switches, ...Object.entries(GIVEN)]) {
      if (OF_THE_APPLICATION.includes(name)) continue;
      // What only the server has is none of a session's.
      const isOfSessions = await admin.query(`set session ${name} = ${value}`).then(
        () => true,
        () => false,
      );
      if (isOfSessions) await admin.query(`set global ${name} = ${value}`).catch(() => undefined);
    }
    await admin.end();
    return database;
  }
  override async stop(): Promise<void> {
    await this.application?.destroy();
    await this.server?.stop();
  }
}
