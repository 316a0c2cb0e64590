import { systemClock } from '../../../time/clock.js';
import type { MessageFilter } from '../../admin-store.js';
import type { Deleted } from '../../elsewhere.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { statement, type Statement } from '../../sql.js';
import type { MysqlTooLate } from './admin-too-late.js';
import type { MysqlDedupKeys } from '../ready/dedup-keys.js';
import { among, textConditions } from './find.js';
import { inTransaction } from '../retry.js';
import { marks } from '../statements.js';

/** Milliseconds to look for them, beyond the first page of the table. */
const SEARCH_TIMEOUT = 2_000;
/** Rows of a transaction: a new owner waits for its bucket meanwhile. */
const PER_TRANSACTION = 500;

interface Place {
  readonly transport: number;
  readonly bucket: number;
}
interface Found {
  readonly id: string;
  readonly seq: string;
}
const nameOf = ({ transport, bucket }: Place): string => `${transport} ${bucket}`;

/**
 * Deletes ready messages of buckets that nobody leases, or whose owner says that it publishes nothing of them. Only the owner of
 * a bucket publishes from it, not past the end of its lease, and not before it says otherwise: while the lease row is locked
 * nobody can begin to send what is deleted.
 */
export class MysqlUnowned {
  /** @internal */ readonly buckets: Statement;
  /** @internal */ readonly hold: Statement;

  constructor(
    readonly database: SqlDatabase,
    readonly names: TableNames,
    readonly parts: { search: MysqlTooLate; keys: MysqlDedupKeys },
  ) {
    const unowned = '(owner is null or expires_at <= utc_timestamp(6) or idle_epoch = epoch)';
    this.buckets = statement('unowned buckets', `select transport, bucket from ${names.leases} where ${unowned}`);
    this.hold = statement(
      'hold bucket',
      `select 1 from ${names.leases} where transport = ? and bucket = ? and ${unowned} lock in share mode`,
    );
  }

  /** @param room the most rows to delete */
  async cancel(filter: MessageFilter, room: number): Promise<Deleted[]> {
    if (room <= 0 || filter.ids?.length === 0) return [];
    const deleted: Deleted[] = [];
    const deadline = systemClock.monotonic() + SEARCH_TIMEOUT;
    for (const [place, rows] of await this.find(filter, room))
      for (let from = 0; from < rows.length; from += PER_TRANSACTION)
        deleted.push(...(await this.removeSome(place, rows.slice(from, from + PER_TRANSACTION), deadline)));
    return deleted;
  }

  /** @internal Where they are, bucket by bucket. */
  async find(filter: MessageFilter, room: number): Promise<Map<Place, Found[]>> {
    const places = new Map<string, Place>();
    const { rows: unowned } = await this.database.connection('admin').run(this.buckets.bind());
    for (const [transport, bucket] of unowned) {
      const place = { transport: Number(transport), bucket: Number(bucket) };
      if (filter.transport === undefined || filter.transport === place.transport) places.set(nameOf(place), place);
    }
    const found = new Map<Place, Found[]>();
    if (places.size === 0) return found;
    const deadline = systemClock.monotonic() + SEARCH_TIMEOUT;
    const wanted = filter.ids === undefined ? textConditions(filter) : among(filter.ids, filter);
    let left = room;
    const collect = (page: readonly (readonly unknown[])[]): boolean => {
      for (const [id, transport, bucket, seq] of page) {
        const place = places.get(nameOf({ transport: Number(transport), bucket: Number(bucket) }));
        if (place === undefined || left === 0) continue;
        left -= 1;
        const row = { id: String(id), seq: String(seq) };
        const rows = found.get(place);
        if (rows === undefined) found.set(place, [row]);
        else rows.push(row);
      }
      return left > 0;
    };
    for (const range of await this.parts.search.ranges(filter))
      if (left > 0) await this.parts.search.look(range, wanted, deadline, collect);
    return found;
  }

  /** @param also is done in the same transaction */
  async removeSome(
    { transport, bucket }: Place,
    found: readonly Found[],
    deadline: number,
    also: (tx: SqlExecutor, deleted: number) => Promise<void> = async () => undefined,
  ): Promise<Deleted[]> {
    const { keys } = this.parts;
    const free = await keys.before(
      found.map(({ id }) => ({ id, transport, bucket })),
      deadline,
    );
    const seqs = found.map(({ seq }) => seq);
    return inTransaction(this.database.connection('admin'), async (tx) => {
      const deleted = await this.removeIn(tx, { transport, bucket }, seqs);
      await keys.free(tx, free, deleted);
      await also(tx, deleted.length);
      return deleted;
    });
  }

  /** @internal */ async removeIn(
    tx: SqlExecutor,
    { transport, bucket }: Place,
    seqs: readonly string[],
  ): Promise<Deleted[]> {
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
