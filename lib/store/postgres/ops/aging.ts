import type { AgingStore } from '../../admin-store.js';
import type { SqlConnection } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { plainArray } from '../arrays.js';
import { statement } from '../statement.js';

/** Table → its times that something goes by. */
const TIMES = {
  ready: ['created_at'],
  parked: ['created_at', 'due_at', 'died_at'],
  archive: ['created_at', 'published_at'],
  dedup: ['created_at'],
} as const;

/** Time that passes for messages of a test. */
export class PostgresAging implements AgingStore {
  constructor(
    readonly connection: () => SqlConnection,
    readonly names: TableNames,
  ) {}

  async age(ids: readonly string[], ms: number): Promise<void> {
    const list = plainArray(ids);
    await this.connection().transaction(async (tx) => {
      for (const table of Object.keys(TIMES) as (keyof typeof TIMES)[]) {
        const name = this.names[table];
        const earlier = TIMES[table].map((column) => `${column} = ${column} - ?::float8 * interval '1 ms'`);
        const aged = statement(
          undefined,
          `with meant as materialized (select o.tableoid as part, o.ctid as place from ${name} o where o.id = any(?::uuid[]) for update skip locked)
           update ${name} set ${earlier.join(', ')} where (tableoid, ctid) in (select part, place from meant)`,
        );
        await tx.run(aged.bind(list, ...earlier.map(() => ms)));
      }
    });
  }
}
