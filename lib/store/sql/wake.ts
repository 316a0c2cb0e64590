import type { SqlExecutor, SqlResult } from '../executor.js';
import type { Lease } from '../lease-store.js';
import type { StoreSettings } from '../names.js';
import { BLOCKED, WAITING } from '../parked-state.js';
import type { Sql } from '../sql.js';
import type { Dialect } from './dialect.js';
import type { BlockingRow, KeyOfTransport, TakeSql } from './take.js';

export interface WakeSql extends Pick<TakeSql, 'first'> {
  /** Of these leases, in their epochs, those that last: transport, bucket, epoch. */
  lasting(leases: readonly Lease[]): Sql;
  /** Makes rows due that are as they were seen; one that waits for its next try only if it has the key. */
  wake(rows: readonly SeenRow[]): Sql;
}
export interface SeenRow extends Pick<BlockingRow, 'parkedId' | 'state' | 'sendingEpoch'> {
  readonly key: string;
}

/**
 * Makes the first row of a key due whose earlier rows an operator, the cleaner or a former owner removed. In a global order that of
 * all: it may be another key's, whose backoff is not this key's. It is read without locks: one that was sent, or that failed, since
 * then is not woken.
 */
export class KeyWake {
  constructor(
    private readonly dialect: Dialect,
    private readonly sql: WakeSql,
    private readonly ordering: StoreSettings['ordering'],
  ) {}

  /** Whether the rows that stand behind this one are its key's, or in a global order all. */
  holds(blocking: unknown, key: unknown): boolean {
    return this.dialect.isTrue(blocking) && (key !== null || this.ordering === 'global');
  }

  /** The keys that deleted rows held go on. Rows: anything, transport, bucket, key, blocking. */
  wakeKeys(tx: SqlExecutor, rows: SqlResult['rows']): Promise<void> {
    const held = rows.filter(([, , , key, blocking]) => this.holds(blocking, key));
    return this.wake(
      tx,
      held.map(([, transport, bucket, key]) => ({
        transport: Number(transport),
        bucket: Number(bucket),
        key: this.dialect.readKey(key) ?? '',
      })),
    );
  }

  /** Also if it waits for its next try. */
  wakeAtOnce(tx: SqlExecutor, keys: readonly KeyOfTransport[]): Promise<void> {
    return this.wake(tx, keys, [WAITING, BLOCKED]);
  }

  /** If it only waited for the ones before it: one that waits for its next try has its time. */
  async wake(tx: SqlExecutor, all: readonly KeyOfTransport[], states: readonly number[] = [BLOCKED]): Promise<void> {
    const nameOf = this.ordering === 'global' ? () => '' : ({ key }: KeyOfTransport) => key; // there all have one first row
    const keys = [...new Map(all.map((key) => [`${key.transport} ${key.bucket} ${nameOf(key)}`, key])).values()];
    if (keys.length === 0) return;
    const heads = (await this.sql.first(tx, keys, 1))
      .filter(({ state }) => states.includes(state))
      .map((head) => ({ ...(keys[head.key] as KeyOfTransport), ...head, key: (keys[head.key] as KeyOfTransport).key }));
    // Whoever is sending a key's first row goes on with the key.
    const marked = heads.flatMap((head): Lease[] =>
      head.sendingEpoch === null ? [] : [{ ...head, epoch: head.sendingEpoch }],
    );
    const { rows } = marked.length === 0 ? { rows: [] } : await tx.run(this.sql.lasting(marked));
    const sending = new Set(rows.map((lease) => lease.map(String).join(' ')));
    const free = heads.filter(({ transport, bucket, sendingEpoch: epoch }) => {
      return epoch === null || !sending.has(`${transport} ${bucket} ${epoch}`);
    });
    if (free.length > 0) await tx.run(this.sql.wake(free));
  }
}
