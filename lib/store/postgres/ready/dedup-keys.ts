import type { SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import type { Statement } from '../../sql.js';
import type { DedupKeys } from '../../sql/operators.js';
import type { RowPlace } from '../../sql/row-changes.js';
import { plainArray, textArray } from '../arrays.js';
import { statement } from '../statement.js';

/**
 * Of rows `o` of `outbox_dedup`: no transport has the message any more, ready or parked. What is archived does not count, as
 * with `onPublished: 'delete'` it is not there either.
 */
export const unheldIn = ({
  parked,
  ready,
}: TableNames): string => `not exists (select from ${parked} p where p.id = o.id)
         and not exists (select from unnest(o.transports, o.buckets, o.seqs) u(t, b, s) cross join lateral
           (select 1 from ${ready} r where r.transport = u.t and r.bucket = u.b and r.seq = u.s offset 0) r)`;

/** A dedup key ends with what an operator deletes: with its last row that waits, whatever was published or archived before. */
export class PostgresDedupKeys implements DedupKeys<void> {
  readonly lock: Statement;
  readonly remove: Statement;

  constructor(names: TableNames) {
    const { dedup } = names;
    this.lock = statement(
      'outbox_lock_keys',
      `select d.dedup_key from ${dedup} d where d.id = any(?::uuid[]) order by d.dedup_key for update`,
    );
    this.remove = statement(
      'outbox_free_keys',
      `delete from ${dedup} o where o.dedup_key = any(?::text[]) and ${unheldIn(names)}`,
    );
  }

  async before(): Promise<void> {}
  async after(): Promise<void> {}

  /**
   * Behind the deletion, in its transaction. Locked first, and looked at by the next statement: of two who delete rows of one
   * message at once, the second one sees what the first one left. An enqueue that finds a key taken locks nothing.
   */
  async free(tx: SqlExecutor, _: void, deleted: readonly RowPlace[]): Promise<void> {
    if (deleted.length === 0) return;
    const { rows } = await tx.run(this.lock.bind(plainArray(deleted.map(({ id }) => id))));
    if (rows.length > 0) await tx.run(this.remove.bind(textArray(rows.map(([key]) => key as string))));
  }
}
