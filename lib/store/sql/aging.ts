import type { AgingStore } from '../admin-store.js';
import type { TableNames } from '../names.js';
import { statement, type Sql } from '../sql.js';
import { whereOf } from './conditions.js';
import type { OperatorDatabase } from './operator-database.js';

/** Table → its times that something goes by. */
const TIMES = {
  ready: ['created_at'],
  parked: ['created_at', 'due_at', 'died_at'],
  archive: ['created_at', 'published_at'],
  dedup: ['created_at'],
} as const;

/** Time that passes for messages of a test. */
export class Aging implements AgingStore {
  constructor(
    private readonly database: OperatorDatabase,
    private readonly names: TableNames,
  ) {}

  age(ids: readonly string[], ms: number): Promise<void> {
    const { dialect } = this.database;
    const these = (text: (where: string) => string, some: readonly string[], ...values: readonly unknown[]): Sql => {
      const meant = dialect.named('id', some);
      return statement(undefined, text(whereOf(meant))).bind(...values, ...meant.values);
    };
    return this.database.transaction(async (tx) => {
      for (const table of Object.keys(TIMES) as (keyof typeof TIMES)[]) {
        const name = this.names[table];
        const { rows } = await tx.run(
          these((where) => `select o.id from ${name} o${where} for update skip locked`, ids),
        );
        const free = [...new Set(rows.map(([id]) => String(id)))];
        const earlier = TIMES[table].map((time) => `${time} = ${time} - ${dialect.interval}`).join(', ');
        const aged = these((where) => `update ${name} o set ${earlier}${where}`, free, ...TIMES[table].map(() => ms));
        if (free.length > 0) await tx.run(aged);
      }
    });
  }
}
