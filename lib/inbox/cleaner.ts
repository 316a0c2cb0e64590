import type { OutboxDialect } from '../data-layers/drivers/outbox-sql.js';
import { statement } from '../store/sql.js';
import type { InboxRuntime } from './once.js';

/** Forgets messages that are older than the retention, in bounded batches until nothing is left. Several instances may run it at once. */
export abstract class InboxCleaner {
  /** @returns how many rows went. @param options.signal ends the pass after the batch in hand */
  abstract runOnce(options?: { readonly signal?: AbortSignal }): Promise<number>;
}

/** Rows per statement: short locks. */
const BATCH = 1_000;

export function cleanerOf({ options: { retention }, tables, dataLayer, connection }: InboxRuntime): InboxCleaner {
  const runOnce: InboxCleaner['runOnce'] = async ({ signal } = {}) => {
    let removed = 0;
    for (const [table, age] of [[tables.inbox, 'received_at'] as const, [tables.latest, 'seen_at'] as const]) {
      const batch = statement(undefined, batchOf(dataLayer.dialect, table, age)).bind(retention);
      for (let left = retention !== null; left && signal?.aborted !== true;) {
        const { affected } = await connection().run(batch);
        removed += affected;
        left = affected >= BATCH;
      }
    }
    return removed;
  };
  return Object.assign(Object.create(InboxCleaner.prototype) as InboxCleaner, { runOnce });
}

const batchOf = (dialect: OutboxDialect, table: string, age: string): string =>
  dialect === 'postgres'
    ? `delete from ${table} where ctid = any (array(select ctid from ${table}
        where ${age} < clock_timestamp() - ?::double precision * interval '1 millisecond' order by ${age} limit ${BATCH} for update skip locked))`
    : `delete from ${table} where ${age} < utc_timestamp(6) - interval ? * 1000 microsecond order by ${age} limit ${BATCH}`;
