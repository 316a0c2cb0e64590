import type { OutboxDialect } from '../data-layers/drivers/outbox-sql.js';
import type { SqlConnection } from '../store/executor.js';
import { statement } from '../store/sql.js';
import type { InboxTables } from './tables.js';

/** Rows per statement: short locks. */
const BATCH = 1_000;

/** Forgets messages that are older than the retention, in bounded batches until nothing is left. Several instances may run it at once. */
export class InboxCleaner {
  private readonly statements: readonly ReturnType<typeof statement>[];

  /** @param retention milliseconds; `null`: nothing is forgotten */
  constructor(
    dialect: OutboxDialect,
    { inbox, latest }: InboxTables,
    private readonly retention: number | null,
    private readonly connection: () => SqlConnection,
  ) {
    this.statements = [cleaning(dialect, inbox, 'received_at'), cleaning(dialect, latest, 'seen_at')];
  }

  /** @returns how many rows went. @param options.signal ends the pass after the batch in hand */
  async runOnce({ signal }: { readonly signal?: AbortSignal } = {}): Promise<number> {
    let removed = 0;
    if (this.retention === null) return removed;
    for (const each of this.statements) {
      let affected = BATCH;
      while (affected >= BATCH && signal?.aborted !== true) {
        ({ affected } = await this.connection().run(each.bind(this.retention)));
        removed += affected;
      }
    }
    return removed;
  }
}

function cleaning(dialect: OutboxDialect, table: string, age: string): ReturnType<typeof statement> {
  return statement(
    undefined,
    dialect === 'postgres'
      ? `delete from ${table} where ctid = any (array(select ctid from ${table}
          where ${age} < clock_timestamp() - ?::double precision * interval '1 millisecond' order by ${age} limit ${BATCH} for update skip locked))`
      : `delete from ${table} where ${age} < utc_timestamp(6) - interval ? * 1000 microsecond order by ${age} limit ${BATCH}`,
  );
}
