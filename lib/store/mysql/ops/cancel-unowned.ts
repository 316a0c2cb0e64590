import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { statement, type Statement } from '../../sql.js';
import type { MysqlDedupKeys, RowOfMessage } from '../ready/dedup-keys.js';
import { inTransaction } from '../../retry.js';
import { marks } from '../statements.js';

/**
 * Deletes ready messages of buckets that nobody leases. Only the owner of a bucket publishes from it, and not past the end of
 * its lease: while the lease row is locked nobody can begin to send what is deleted.
 */
export class MysqlUnowned {
  /** @internal */ readonly hold: Statement;

  constructor(
    readonly database: SqlDatabase,
    readonly names: TableNames,
    /** @internal */ readonly keys: MysqlDedupKeys,
  ) {
    const unowned = '(owner is null or expires_at <= utc_timestamp(6))';
    this.hold = statement(
      'hold bucket',
      `select 1 from ${names.leases} where transport = ? and bucket = ? and ${unowned} lock in share mode`,
    );
  }

  /**
   * One transaction.
   * @param rows of one bucket
   * @param also is done in it
   * @returns the rows that were deleted
   */
  async removeSome(
    rows: readonly (RowOfMessage & { readonly seq: string })[],
    also: (tx: SqlExecutor, deleted: number) => Promise<void>,
  ): Promise<readonly RowOfMessage[]> {
    const free = await this.keys.before(rows);
    return inTransaction(this.database.connection('admin'), async (tx) => {
      const [first] = rows;
      const deleted =
        first === undefined
          ? []
          : await this.removeIn(
              tx,
              first,
              rows.map(({ seq }) => seq),
            );
      await this.keys.free(tx, free, deleted);
      await also(tx, deleted.length);
      return deleted;
    });
  }

  /** @internal */ async removeIn(
    tx: SqlExecutor,
    { transport, bucket }: Pick<RowOfMessage, 'transport' | 'bucket'>,
    seqs: readonly string[],
  ): Promise<RowOfMessage[]> {
    const { ready } = this.names;
    const { rows: held } = await tx.run(this.hold.bind(transport, bucket));
    if (held.length === 0) return [];
    const where = `transport = ? and bucket = ? and seq in (${marks(seqs.length)})`;
    // Rows that somebody publishes under a lock of its own are passed over.
    const locked = statement(undefined, `select id, seq from ${ready} where ${where} for update skip locked`);
    const { rows } = await tx.run(locked.bind(transport, bucket, ...seqs));
    if (rows.length === 0) return [];
    const remove = `delete from ${ready} where transport = ? and bucket = ? and seq in (${marks(rows.length)})`;
    await tx.run(statement(undefined, remove).bind(transport, bucket, ...rows.map(([, seq]) => String(seq))));
    return rows.map(([id]) => ({ id: String(id), transport, bucket }));
  }
}
