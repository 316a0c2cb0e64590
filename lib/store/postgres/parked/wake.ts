import type { SqlExecutor } from '../../executor.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { BLOCKED, WAITING } from '../../parked-state.js';
import type { Wake } from '../../sql/row-changes.js';
import type { KeyOfTransport } from '../../sql/take.js';
import type { Statement } from '../../sql.js';
import { plainArray, textArray } from '../arrays.js';
import { statement } from '../statement.js';
import { beingSent } from './settle.js';

/** Makes the first row of a key due whose earlier rows an operator, or the cleaner, removed. In a global order that of all. */
export class PostgresWake implements Wake {
  private readonly behind: Statement;
  private readonly atOnce: Statement;

  constructor(
    names: TableNames,
    readonly ordering: StoreSettings['ordering'],
  ) {
    // The first row of a global order may be another key's: its backoff is not this key's.
    this.behind = this.first(names, `x.state = ${BLOCKED}`);
    this.atOnce = this.first(names, `(x.state = ${BLOCKED} or x.state = ${WAITING} and x.key = x.wanted)`);
  }

  wake(tx: SqlExecutor, keys: readonly KeyOfTransport[]): Promise<unknown> {
    return this.run(this.behind, tx, keys);
  }

  wakeAtOnce(tx: SqlExecutor, keys: readonly KeyOfTransport[]): Promise<unknown> {
    return this.run(this.atOnce, tx, keys);
  }

  /** Of rows that were deleted. Rows: anything, transport, bucket, key, blocking. */
  async wakeKeys(tx: SqlExecutor, rows: readonly (readonly unknown[])[]): Promise<void> {
    const held = rows.filter((row) => row[4] === 't' && (row[3] !== null || this.ordering === 'global'));
    const places = held.map(([, transport, bucket, key]) => [transport, bucket, key ?? ''] as [number, number, string]);
    await this.wake(
      tx,
      places.map(([transport, bucket, key]) => ({ transport, bucket, key })),
    );
  }

  private async run(sql: Statement, tx: SqlExecutor, keys: readonly KeyOfTransport[]): Promise<void> {
    if (keys.length === 0) return;
    const places = [keys.map(({ transport }) => transport), keys.map(({ bucket }) => bucket)] as const;
    await tx.run(sql.bind(...places.map(plainArray), textArray(keys.map(({ key }) => key))));
  }

  private first({ parked, leases }: TableNames, mayGo: string): Statement {
    const ofKey = this.ordering === 'global' ? '' : 'and o.key = k.key';
    return statement(
      undefined,
      `update ${parked} set due_at = now() where ctid = any(array(select x.ctid
       from (select distinct * from unnest(?::smallint[], ?::smallint[], ?::text[]) k(t, b, key)) k
       cross join lateral (select o.ctid, o.state, o.key, k.key as wanted, ${beingSent(leases)} as sending from ${parked} o
         where o.transport = k.t and o.bucket = k.b ${ofKey} and o.blocking order by o.seq, o.parked_id limit 1) x
       where ${mayGo} and not x.sending))`,
    );
  }
}
