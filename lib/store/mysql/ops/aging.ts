import type { AgingStore } from '../../admin-store.js';
import type { SqlDatabase } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import { inTransaction } from '../../retry.js';
import { marks } from '../statements.js';

/** Table → its key, and its times that something goes by. */
const TABLES = {
  ready: { key: 'seq', times: ['created_at'] },
  parked: { key: 'parked_id', times: ['created_at', 'due_at', 'died_at'] },
  archive: { key: 'archive_id', times: ['created_at', 'published_at'] },
  dedup: { key: 'dedup_key', times: ['created_at'] },
} as const;

/** Time that passes for messages of a test. */
export class MysqlAging implements AgingStore {
  constructor(
    readonly database: SqlDatabase,
    readonly names: TableNames,
  ) {}

  age(ids: readonly string[], ms: number): Promise<void> {
    return inTransaction(this.database.connection('admin'), async (tx) => {
      for (const table of Object.keys(TABLES) as (keyof typeof TABLES)[]) {
        const name = this.names[table];
        const { key, times } = TABLES[table];
        const free = statement(
          undefined,
          `select ${key} from ${name} where id in (${marks(ids.length)}) for update skip locked`,
        );
        const keys = (await tx.run(free.bind(...ids))).rows.map(([value]) => value);
        if (keys.length === 0) continue;
        const earlier = times.map((column) => `${column} = ${column} - interval ? microsecond`);
        const aged = statement(
          undefined,
          `update ${name} set ${earlier.join(', ')} where ${key} in (${marks(keys.length)}) and id in (${marks(ids.length)})`,
        );
        await tx.run(aged.bind(...times.map(() => ms * 1_000), ...keys, ...ids));
      }
    });
  }
}
