import { keyBytes } from '../../../message/key-bytes.js';
import type { SqlExecutor, SqlResult } from '../../executor.js';
import type { BlockingRow, KeyOfTransport } from '../../sql/take.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import type { Wake } from '../../sql/row-changes.js';
import { BLOCKED, WAITING } from '../../parked-state.js';
import { readKey } from '../columns.js';
import { jsonRows, jsonTable, LEASES, lookUp, type JsonCell } from '../json-rows.js';
import { sized, times } from '../statements.js';

const KEYS_PER_STATEMENT = 64;

/** Reads the first blocking rows of keys, and makes the due poll find a key again whose first row somebody removed. */
export class MysqlWake implements Wake {
  private readonly sql: ReturnType<typeof wakeStatements>;

  constructor(
    names: TableNames,
    readonly ordering: StoreSettings['ordering'],
  ) {
    this.sql = wakeStatements(names, ordering);
  }

  async first(tx: SqlExecutor, keys: readonly KeyOfTransport[], perKey: number): Promise<BlockingRow[]> {
    const all: BlockingRow[] = [];
    for (let from = 0; from < keys.length; from += KEYS_PER_STATEMENT) {
      const some = keys.slice(from, from + KEYS_PER_STATEMENT);
      const values = some.flatMap((key, i) => [from + i, ...this.placeOf(key), perKey]);
      for (const [key, parkedId, state, due, epoch] of (await tx.run(this.sql.first(some.length).bind(...values)))
        .rows) {
        all.push({
          key: Number(key),
          parkedId: String(parkedId),
          state: Number(state),
          due: Number(due) === 1,
          sendingEpoch: epoch === null ? null : String(epoch),
        });
      }
    }
    return all;
  }

  private placeOf({ transport, bucket, key }: KeyOfTransport): unknown[] {
    return this.ordering === 'global' ? [transport, bucket] : [transport, bucket, keyBytes(key)];
  }

  /** Whether the rows that stand behind this one are its key's, or in a global order all. */
  holds(blocking: unknown, key: unknown): boolean {
    return Number(blocking) === 1 && (key !== null || this.ordering === 'global');
  }

  /** Of rows that were deleted the keys that they held. Rows: anything, transport, bucket, key, blocking. */
  wakeKeys(tx: SqlExecutor, rows: SqlResult['rows']): Promise<void> {
    const held = rows.filter(([, , , key, blocking]) => this.holds(blocking, key));
    const keys = held.map(([, transport, bucket, key]) => ({
      transport: Number(transport),
      bucket: Number(bucket),
      key: readKey(key) ?? '',
    }));
    const unique = new Map(keys.map((key) => [`${key.transport} ${key.bucket} ${key.key}`, key]));
    return this.wake(tx, [...unique.values()]);
  }

  /** The first row of each key is due now, if it only waited for the ones before it: one that waits for its next try has its time. */
  wake(tx: SqlExecutor, keys: readonly KeyOfTransport[]): Promise<void> {
    return this.wakeIn([BLOCKED], tx, keys);
  }

  /** The same, also if it waits for its next try. */
  wakeAtOnce(tx: SqlExecutor, keys: readonly KeyOfTransport[]): Promise<void> {
    return this.wakeIn([WAITING, BLOCKED], tx, keys);
  }

  private async wakeIn(states: readonly number[], tx: SqlExecutor, keys: readonly KeyOfTransport[]): Promise<void> {
    if (keys.length === 0) return;
    const heads = (await this.first(tx, keys, 1)).filter(({ state }) => states.includes(state));
    const sending = await this.beingSent(tx, keys, heads);
    const rows = heads.filter((head) => !sending.has(head)).map((head) => asItWas(head, keys));
    if (rows.length > 0) await tx.run(this.sql.wake.bind(jsonRows(rows)));
  }

  /** Whoever is sending a key's first row goes on with the key. */
  private async beingSent(
    tx: SqlExecutor,
    keys: readonly KeyOfTransport[],
    heads: readonly BlockingRow[],
  ): Promise<Set<BlockingRow>> {
    const marked = heads.filter(({ sendingEpoch }) => sendingEpoch !== null);
    if (marked.length === 0) return new Set();
    const leases = marked.map(({ key, sendingEpoch }): JsonCell[] => {
      const { transport, bucket } = keys[key] as KeyOfTransport;
      return [transport, bucket, BigInt(sendingEpoch as string)];
    });
    const { rows } = await tx.run(this.sql.held.bind(jsonRows(leases)));
    const held = new Set(rows.map((lease) => lease.join(' ')));
    return new Set(marked.filter((_, i) => held.has((leases[i] as JsonCell[]).join(' '))));
  }
}

/** They are read without locks: one that was sent, or that failed, since then is not woken. */
const asItWas = ({ key, parkedId, state, sendingEpoch }: BlockingRow, keys: readonly KeyOfTransport[]): JsonCell[] => [
  BigInt(parkedId),
  state,
  sendingEpoch === null ? null : BigInt(sendingEpoch),
  keyBytes((keys[key] as KeyOfTransport).key).toString('hex'),
];

function wakeStatements({ parked, leases }: TableNames, ordering: StoreSettings['ordering']) {
  // A global order has no index of its own: it sorts what blocks.
  const ofKey = ordering === 'global' ? '' : 'and `key` = ?';
  const branch = `(select ? as k, parked_id, state, due_at <= utc_timestamp(6), sending_epoch
    from ${parked} force index (by_key) where transport = ? and bucket = ? and blocking = 1 ${ofKey}
    order by seq, parked_id limit ?)`;
  const seen = jsonTable({ p: 'bigint unsigned', s: 'tinyint', e: 'bigint unsigned', h: 'varchar(510)' });
  return {
    first: sized((n) => times(n, branch, ' union all ')),
    // The first one of a global order may be another key's: its backoff is not ours.
    wake: statement(
      'wake',
      `update ${lookUp(seen, `${parked} p`)} on p.parked_id = k.p
      set p.due_at = utc_timestamp(6) where p.state = k.s and p.sending_epoch <=> k.e
        and (p.state = ${BLOCKED} or p.\`key\` = unhex(k.h))`,
    ),
    held: statement(
      'held by somebody',
      `select l.transport, l.bucket, l.epoch from ${lookUp(LEASES, `${leases} l`)}
      on l.transport = k.t and l.bucket = k.b where l.epoch = k.e and l.expires_at > utc_timestamp(6)`,
    ),
  };
}
