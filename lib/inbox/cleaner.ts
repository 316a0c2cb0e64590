import type { OutboxDialect } from '../data-layers/drivers/outbox-sql.js';
import type { SqlConnection } from '../store/executor.js';
import { statement } from '../store/sql.js';
import type { InboxTables } from './tables.js';

/** Forgets messages that are older than the retention, in bounded batches until nothing is left. Several instances may run it at once. */
export abstract class InboxCleaner {
  /** @returns how many rows went. @param options.signal ends the pass after the batch in hand */
  abstract runOnce(options?: { readonly signal?: AbortSignal }): Promise<number>;
}

/** Rows per statement: short locks. */
const BATCH = 1_000;

/** @param retention milliseconds; `null`: nothing is forgotten */
export function cleanerOf(
  dialect: OutboxDialect,
  { inbox, latest }: InboxTables,
  retention: number | null,
  connection: () => SqlConnection,
): InboxCleaner {
  const statements = [cleaning(dialect, inbox, 'received_at'), cleaning(dialect, latest, 'seen_at')];
  return new (class extends InboxCleaner {
    override async runOnce({ signal }: { readonly signal?: AbortSignal } = {}): Promise<number> {
      let removed = 0;
      for (const each of retention === null ? [] : statements) {
        let affected = BATCH;
        while (affected >= BATCH && signal?.aborted !== true) {
          ({ affected } = await connection().run(each.bind(retention)));
          removed += affected;
        }
      }
      return removed;
    }
  })();
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
