import { keyBytes } from '../../../message/key-bytes.js';
import type { SqlConnection } from '../../executor.js';
import type { KeyInBucket } from '../../parked-store.js';
import type { TableNames } from '../../names.js';
import { readKey } from '../columns.js';
import { BLOCKED } from '../../parked-state.js';
import { marks, sized, times } from '../statements.js';
import type { BlockingRow, TakeSql } from '../../sql/take.js';

/** Index entries per bucket and round: many small keys come in one round, a key with many rows costs one round. */
const PAGE = 50;

/** Lists keys that have a blocking row, without reading all the rows behind a failing one. */
export class MysqlBlockingKeys {
  private readonly sql: ReturnType<typeof keyStatements>;

  constructor(
    names: TableNames,
    private readonly first: TakeSql['first'],
  ) {
    this.sql = keyStatements(names);
  }

  async list(
    connection: SqlConnection,
    transport: number,
    buckets: readonly number[],
    limit: number,
    after: ReadonlyMap<number, string> = new Map(),
  ): Promise<(KeyInBucket & { ready: boolean })[]> {
    if (buckets.length === 0 || limit <= 0) return [];
    const from = new Map(buckets.map((bucket) => [bucket, smallestBehind(after.get(bucket))]));
    const keys = (await this.distinct(connection, transport, from, limit)).map((key) => ({ transport, ...key }));
    if (keys.length === 0) return [];
    const { rows } = await connection.run(this.sql.epochs(buckets.length).bind(transport, ...buckets));
    const epochs = new Map(rows.map(([bucket, epoch]) => [Number(bucket), String(epoch)]));
    const heads = await this.first(connection, keys, 1);
    const headOf = new Map(heads.map((head) => [head.key, head]));
    // What blocked a key may be gone since: it counts all the same, as fewer than `limit` says that these are all.
    return keys.map(({ bucket, key }, index) => {
      const head = headOf.get(index);
      return { bucket, key, ready: head === undefined || isReady(head, epochs.get(bucket)) };
    });
  }

  private async distinct(
    connection: SqlConnection,
    transport: number,
    from: ReadonlyMap<number, Buffer>,
    limit: number,
  ): Promise<KeyInBucket[]> {
    const found: KeyInBucket[] = [];
    let open = from;
    while (open.size > 0 && found.length < limit) {
      const values = [...open].flatMap(([bucket, first]) => [transport, bucket, first, PAGE]);
      const { rows } = await connection.run(this.sql.page(open.size).bind(...values));
      const next = new Map<number, Buffer>();
      const counts = new Map<number, number>();
      let last: Buffer | undefined;
      let lastBucket = -1;
      for (const [of, bytes] of rows) {
        const bucket = Number(of);
        const key = bytes as Buffer;
        if (bucket !== lastBucket || last?.equals(key) !== true) found.push({ bucket, key: readKey(key) as string });
        [last, lastBucket] = [key, bucket];
        counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
        next.set(bucket, smallestBehind(key));
      }
      open = new Map([...next].filter(([bucket]) => counts.get(bucket) === PAGE));
    }
    return found.slice(0, limit);
  }
}

/** Keys are ordered as bytes. */
function smallestBehind(key: string | Buffer | undefined): Buffer {
  if (key === undefined) return Buffer.alloc(0);
  return Buffer.concat([typeof key === 'string' ? keyBytes(key) : key, Buffer.alloc(1)]);
}

function keyStatements({ parked, leases }: TableNames) {
  const page = `(select bucket, \`key\` from ${parked} force index (by_key)
    where transport = ? and bucket = ? and blocking = 1 and \`key\` >= ? order by \`key\` limit ?)`;
  return {
    page: sized((n) => times(n, page, ' union all ')),
    epochs: sized(
      (n) => `select bucket, epoch from ${leases}
      where transport = ? and bucket in (${marks(n)}) and expires_at > utc_timestamp(6)`,
    ),
  };
}

/** Blocked, or left `sending` by an older epoch: the key can go on without waiting. */
function isReady({ state, sendingEpoch }: BlockingRow, epoch: string | undefined): boolean {
  if (sendingEpoch !== null) return sendingEpoch !== epoch;
  return state === BLOCKED;
}
