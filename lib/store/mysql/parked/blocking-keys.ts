import { keyBytes } from '../../../message/key-bytes.js';
import type { SqlConnection } from '../../executor.js';
import type { KeyInBucket } from '../../parked-store.js';
import type { TableNames } from '../../names.js';
import { readKey } from '../columns.js';
import { BLOCKED } from '../../parked-state.js';
import { statement } from '../../sql.js';
import { jsonRows, jsonTable } from '../json-rows.js';
import { BY_KEY, sized, times } from '../statements.js';

/** Index entries per bucket and round: many small keys come in one round, a key with many rows costs one round. */
const PAGE = 50;
const KEYS_PER_STATEMENT = 1_000;

/** Lists keys that have a blocking row, without reading all the rows behind a failing one. */
export class MysqlBlockingKeys {
  private readonly sql: ReturnType<typeof keyStatements>;

  constructor(names: TableNames) {
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
    const keys = await this.distinct(connection, transport, from, limit);
    const found: (KeyInBucket & { ready: boolean })[] = [];
    while (found.length < keys.length) {
      const some = keys.slice(found.length, found.length + KEYS_PER_STATEMENT);
      const list = jsonRows(some.map(({ bucket, key }, i) => [i, bucket, keyBytes(key).toString('hex')]));
      const { rows } = await connection.run(this.sql.waiting.bind(list, transport, transport));
      const waiting = new Set(rows.map(([index]) => Number(index)));
      for (const [index, key] of some.entries()) found.push({ ...key, ready: !waiting.has(index) });
    }
    return found;
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
      for (const [of, bytes] of rows) {
        const bucket = Number(of);
        const behind = smallestBehind(bytes as Buffer);
        if (next.get(bucket)?.equals(behind) !== true) found.push({ bucket, key: readKey(bytes) as string });
        counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
        next.set(bucket, behind);
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
    // Neither blocked, nor left `sending` by an older epoch. A key without a row any more is none of these: it counts all the
    // same, as fewer than `limit` says that these are all. Subqueries: one round for each 64 keys took ten times as long.
    waiting: statement(
      'waiting keys',
      `select k.n from ${jsonTable({ n: 'int', b: 'smallint', h: 'varchar(510)' })}
      left join ${leases} l on l.transport = ? and l.bucket = k.b and l.expires_at > utc_timestamp(6)
      where not (select if(p.sending_epoch is null, p.state = ${BLOCKED}, not p.sending_epoch <=> l.epoch)
        from ${parked} p force index (by_key) where p.transport = ? and p.bucket = k.b and p.blocking = 1
        and p.\`key\` = unhex(k.h) order by ${BY_KEY}, p.seq, p.parked_id limit 1)`,
    ),
  };
}
