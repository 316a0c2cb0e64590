import { statement } from '../store/sql.js';
import type { InboxRuntime } from './once.js';

export interface InboxStats {
  readonly consumer: string;
  /** Messages that are remembered. */
  readonly messages: number;
  /** Repetitions of them. */
  readonly duplicates: number;
}
export interface InboxAge {
  /** Milliseconds for which the oldest id, or `latest`, has been remembered; 0: there is none. */
  readonly oldest: number;
  /** Milliseconds by which that is more than the retention. Cleaners come hourly: with more than two hours none of them can. */
  readonly overdue: number;
}

export async function statsOf({ connection, tables }: InboxRuntime): Promise<InboxStats[]> {
  const text = `select consumer, count(*), sum(duplicates) from ${tables.inbox} group by consumer order by consumer`;
  const { rows } = await connection().run(statement(undefined, text).bind());
  return rows.map((row) => ({ consumer: String(row[0]), messages: Number(row[1]), duplicates: Number(row[2]) }));
}

/** By the indexes of the two tables: it counts nothing. */
export async function ageOf({ connection, dataLayer, tables, options }: InboxRuntime): Promise<InboxAge> {
  const age = (column: string, table: string): string =>
    dataLayer.dialect === 'postgres'
      ? `extract(epoch from clock_timestamp() - (select min(${column}) from ${table})) * 1000`
      : `timestampdiff(microsecond, (select min(${column}) from ${table}), utc_timestamp(6)) / 1000`;
  const ages = [age('received_at', tables.inbox), age('seen_at', tables.latest)];
  const { rows } = await connection().run(statement(undefined, `select ${ages.join()}`).bind());
  const oldest = Math.max(0, ...(rows[0] ?? []).map(Number)); // of null 0
  return { oldest, overdue: Math.max(0, oldest - (options.retention ?? Infinity)) };
}
