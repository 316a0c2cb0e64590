import type { ParkedState } from '../../../outbox-message.js';
import { systemClock } from '../../../time/clock.js';
import type { Change } from '../../admin-store.js';
import {
  unlessEnded,
  BULK_LOOK,
  BULK_TIMEOUT,
  type AuditRow,
  type Bounds,
  type BulkPage,
  type BulkRequest,
  type BulkRow,
  type BulkStore,
  type NewAction,
  type AuditOutcome,
} from '../../bulk-store.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import { ERROR_LENGTH, type RowsById, type StoredRow } from '../../inspect-store.js';
import type { TableNames } from '../../names.js';
import { type Row } from '../columns.js';
import { DEAD, SCHEDULED, stateNumber } from '../../parked-state.js';
import type { MysqlLookup } from '../inspect/lookup.js';
import { filterOf } from '../inspect/pages.js';
import { readDate } from '../inspect/rows.js';
import { TimedSelect } from '../inspect/select.js';
import type { Conditions } from '../inspect/text-conditions.js';
import { inTransaction } from '../../retry.js';
import type { MysqlServer } from '../schema/server.js';
import { marks } from '../statements.js';
import type { MysqlAdmin } from './admin.js';
import type { AuditTable } from '../../sql/audit.js';
import type { MysqlUnowned } from './cancel-unowned.js';

/** What operators do to many rows. It changes what {@link MysqlAdmin} and {@link MysqlUnowned} change, in the same way. */
export class MysqlBulk implements BulkStore {
  /** @internal */ readonly select: TimedSelect;

  constructor(
    readonly database: SqlDatabase,
    server: MysqlServer,
    readonly names: TableNames,
    readonly parts: { readonly admin: MysqlAdmin; readonly unowned: MysqlUnowned; readonly lookup: MysqlLookup },
    readonly audits: AuditTable,
  ) {
    this.select = new TimedSelect(database, server);
  }

  async bounds(): Promise<Bounds> {
    const { parked } = this.names;
    const rest = `(select min(parked_id) from ${parked}), (select max(parked_id) from ${parked}), utc_timestamp(6)`;
    const [[from, upTo, at] = []] = await this.read(rest, []);
    const textOf = (id: unknown): string | null => (id === null ? null : String(id));
    const now = new Date((readDate(at)?.getTime() ?? -1) + 1);
    return { from: textOf(from), upTo: textOf(upTo), at: String(at), now };
  }

  /** First where a bounded piece of the key ends, then what of it the filter means. By ids all of them are looked at. */
  async find(request: BulkRequest): Promise<BulkPage> {
    if (request.bounds.upTo === null) return { rows: [], next: null };
    const piece = pieceOf(request);
    const { ids } = request.filter;
    const end = ids === undefined ? await this.endOf(piece, request.backwards) : null;
    const within = end === null ? piece : and(piece, request.backwards ? 'parked_id >= ?' : 'parked_id <= ?', end);
    const rows = (await this.read(...this.findRest(request, within))).map(readBulkRow);
    return { rows, next: rows.length >= request.limit ? (rows.at(-1)?.rowId ?? null) : end };
  }

  /** @internal The last row of a look; `null`: it comes to the end. */
  async endOf({ conditions, values }: Conditions, backwards: boolean): Promise<string | null> {
    const [row] = await this.read(
      `parked_id from ${this.names.parked} force index (primary) where ${conditions.join(' and ')}
      order by parked_id${backwards ? ' desc' : ''} limit 1 offset ${BULK_LOOK - 1}`,
      values,
    );
    return row === undefined ? null : String(row[0]);
  }

  /** @internal */ findRest(
    { filter, bounds, backwards, limit, withErrors }: BulkRequest,
    within: Conditions,
  ): [rest: string, values: unknown[]] {
    const { ids, states, transport, scheduledUpTo } = filter;
    const meant = filterOf(filter, { isLong: true });
    const conditions = [
      ...within.conditions,
      ...(ids === undefined ? [] : [`id in (${marks(ids.length)})`]),
      `state in (${[0, ...states.map(stateNumber)].join(', ')})`,
      `(state <> ${DEAD} or died_at is null or died_at <= ?)`,
      ...(scheduledUpTo === undefined ? [] : [`(state <> ${SCHEDULED} or due_at <= ?)`]),
      ...(transport === undefined ? [] : ['transport = ?']),
      ...meant.conditions,
    ];
    const values = [
      ...within.values,
      ...(ids ?? []),
      bounds.at,
      ...(scheduledUpTo === undefined ? [] : [scheduledUpTo]),
      ...(transport === undefined ? [] : [transport]),
      ...meant.values,
    ];
    const error = withErrors ? `coalesce(left(last_error, ${ERROR_LENGTH}), '')` : `''`;
    const index = ids === undefined ? 'primary' : 'by_id';
    return [
      `parked_id, id, transport, bucket, seq, ${error} from ${this.names.parked} force index (${index})
      where ${conditions.join(' and ')} order by parked_id${backwards ? ' desc' : ''} limit ?`,
      [...values, limit],
    ];
  }

  begin(action: NewAction): Promise<string> {
    return this.audits.begin(action);
  }

  locate(ids: readonly string[], bucket?: number): Promise<RowsById> {
    return this.parts.lookup.locate(ids, bucket);
  }

  async change(
    audit: string,
    change: Change,
    states: readonly ParkedState[],
    rows: readonly BulkRow[],
  ): Promise<string[] | undefined> {
    const { admin } = this.parts;
    const changed = await unlessEnded(
      admin.changeSome(change, states.map(stateNumber), rows, this.counting(audit, rows.length)),
    );
    if (changed !== undefined && change !== 'requeue') await admin.parts.keys.after(changed);
    return changed?.map(({ id }) => id);
  }

  /** A transaction for each bucket. */
  async cancelReady(audit: string, rows: readonly StoredRow[]): Promise<string[] | undefined> {
    const { unowned } = this.parts;
    const places = new Map<string, StoredRow[]>();
    for (const row of rows) {
      const place = `${row.transport} ${row.bucket}`;
      places.set(place, [...(places.get(place) ?? []), row]);
    }
    const all: string[] = [];
    for (const found of places.values()) {
      const deleted = await unlessEnded(unowned.removeSome(found, this.counting(audit, found.length)));
      if (deleted === undefined) return undefined;
      await unowned.keys.after(deleted);
      for (const { id } of deleted) all.push(id);
    }
    return all;
  }

  /** @internal */ counting(audit: string, asked: number): (tx: SqlExecutor, done: number) => Promise<void> {
    return (tx, done) => this.audits.count(tx, audit, done, Math.max(0, asked - done));
  }

  release(audit: string, filter: { key: string; transport?: number }): Promise<number | undefined> {
    const work = inTransaction(this.database.connection('admin'), async (tx) => {
      const released = await this.parts.admin.releaseIn(tx, filter);
      await this.audits.count(tx, audit, released, 0);
      return released;
    });
    return unlessEnded(work);
  }

  end(audit: string, outcome: AuditOutcome, error: string | null): Promise<boolean> {
    return this.audits.end(audit, outcome, error);
  }
  audit(before: string | null, limit: number): Promise<AuditRow[]> {
    return this.audits.list(before, limit);
  }

  /** @internal */ read(rest: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return this.select.inTime(systemClock.monotonic() + BULK_TIMEOUT, rest, values);
  }
}

/** Rows that are left, of those that were there when the action began. */
function pieceOf({ bounds, after, backwards }: BulkRequest): Conditions {
  const all: Conditions = {
    conditions: ['parked_id >= ?', 'parked_id <= ?'],
    values: [bounds.from, bounds.upTo].map(numberOf),
  };
  return after === null ? all : and(all, backwards ? 'parked_id < ?' : 'parked_id > ?', after);
}

const and = ({ conditions, values }: Conditions, condition: string, value: string): Conditions => ({
  conditions: [...conditions, condition],
  values: [...values, numberOf(value)],
});
/** A text would be compared as a floating-point number. */
const numberOf = (id: string | null): bigint | null => (id === null ? null : BigInt(id));

function readBulkRow([rowId, id, transport, bucket, seq, error]: Row): BulkRow {
  return {
    rowId: String(rowId),
    id: String(id),
    transport: Number(transport),
    bucket: Number(bucket),
    seq: String(seq),
    error: String(error),
  };
}
