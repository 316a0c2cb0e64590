import { systemClock } from '../../../time/clock.js';
import { BULK_LOOK, BULK_TIMEOUT, unlessEnded } from '../../bulk-store.js';
import type { PurgePage, PurgeRequest, PurgeRow, PurgeStore } from '../../edit/purge-store.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { readPosition, writePosition } from '../../position.js';
import { statement } from '../../sql.js';
import { updateOf } from '../capabilities.js';
import type { Row } from '../columns.js';
import { readDate } from '../inspect/rows.js';
import { TimedSelect } from '../inspect/select.js';
import { jsonRows, jsonTable, lookUp } from '../json-rows.js';
import { inTransaction } from '../../retry.js';
import type { MysqlServer } from '../schema/server.js';
import { marks } from '../statements.js';
import type { AuditTable } from '../../sql/audit.js';
import { textConditions, type Conditions } from '../inspect/text-conditions.js';

const SHAPE = ['time', 'number'] as const;
const ORDER = 'published_at, archive_id';

/** What an operator deletes for good: what was published, and what messages were before their edits. */
export class MysqlPurge implements PurgeStore {
  /** @internal */ readonly select: TimedSelect;
  /** @internal */ readonly sql: ReturnType<typeof statements>;

  constructor(
    readonly database: SqlDatabase,
    server: MysqlServer,
    readonly names: TableNames,
    readonly audits: AuditTable,
  ) {
    this.select = new TimedSelect(database, server);
    this.sql = statements(names);
  }

  /** First where a bounded piece of the archive ends, then what of it is meant. */
  async archived(request: PurgeRequest): Promise<PurgePage> {
    const from = `from ${this.names.archive} force index (by_time)`;
    const piece = pieceOf(request);
    const look = `${ORDER} ${from} where ${piece.conditions.join(' and ')} order by ${ORDER} limit 1 offset ${BULK_LOOK - 1}`;
    const [end] = await this.read(look, piece.values);
    const upTo = end === undefined ? NOTHING : compared('<', '<=', [String(end[0]), String(end[1])]);
    const all = [piece, upTo, meantBy(request)];
    const conditions = all.flatMap((one) => one.conditions).join(' and ');
    const values = [...all.flatMap((one) => one.values), request.limit];
    const rows = await this.read(`${ORDER} ${from} where ${conditions} order by ${ORDER} limit ?`, values);
    const last = rows.length >= request.limit ? rows.at(-1) : end;
    return {
      rows: rows.map((row) => row.map(String)),
      next: last === undefined ? null : writePosition([last[0], last[1]]),
      at: readDate(last?.[0] ?? rows.at(-1)?.[0] ?? null),
    };
  }

  remove(audit: string, rows: readonly PurgeRow[]): Promise<number | undefined> {
    return this.counted(audit, rows.length, async (tx) => {
      // Past what the cleaner deletes just now.
      const locked = (await tx.run(this.sql.lock.bind(places(rows)))).rows;
      if (locked.length === 0) return 0;
      return (await tx.run(this.sql.remove.bind(places(locked.map((row) => row.map(String)))))).affected;
    });
  }

  forget(audit: string, edits: readonly string[]): Promise<number | undefined> {
    const forget = this.sql.forget.bind(idRows(edits));
    return this.counted(audit, edits.length, async (tx) => (await tx.run(forget)).affected);
  }

  /** @internal */ counted(
    audit: string,
    asked: number,
    change: (tx: SqlExecutor) => Promise<number>,
  ): Promise<number | undefined> {
    const work = inTransaction(this.database.connection('admin'), async (tx) => {
      const done = await change(tx);
      await this.audits.count(tx, audit, done, Math.max(0, asked - done));
      return done;
    });
    return unlessEnded(work);
  }

  /** @internal */ read(rest: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return this.select.inTime(systemClock.monotonic() + BULK_TIMEOUT, rest, values);
  }
}

const NOTHING: Conditions = { conditions: [], values: [] };
const places = (rows: readonly PurgeRow[]): string =>
  jsonRows(rows.map(([at, id]) => [at as string, BigInt(id as string)]));
const idRows = (ids: readonly string[]): string => jsonRows(ids.map((id) => [BigInt(id)]));

/** Neither server uses an index for a comparison of rows. */
function compared(sign: '<' | '>', last: '<=' | '>', [at, id]: readonly [string, string]): Conditions {
  const bounds = `published_at ${sign}= ?`;
  return {
    conditions: [bounds, `(published_at ${sign} ? or archive_id ${last} ?)`],
    values: [at, at, BigInt(id)],
  };
}

function pieceOf({ until, after }: PurgeRequest): Conditions {
  const upTo = until.toISOString().slice(0, 23).replace('T', ' ');
  const behind = after === null ? NOTHING : compared('>', '>', readPosition(after, [...SHAPE]) as [string, string]);
  return { conditions: ['published_at <= ?', ...behind.conditions], values: [upTo, ...behind.values] };
}

function meantBy({ ids, transport, key, topic, type }: PurgeRequest): Conditions {
  const texts = textConditions({ key, topic, type });
  return {
    conditions: [
      ...(ids === undefined ? [] : [`id in (${marks(ids.length)})`]),
      ...(transport === undefined ? [] : ['transport = ?']),
      ...texts.conditions,
    ],
    values: [...(ids ?? []), ...(transport === undefined ? [] : [transport]), ...texts.values],
  };
}

function statements({ archive, audit }: TableNames) {
  // With its time: in an archive in partitions a number alone may be that of another row.
  const archived = `${lookUp(jsonTable({ t: 'datetime(6)', a: 'bigint unsigned' }), `${archive} a`)}
      on a.archive_id = k.a and a.published_at = k.t`;
  return {
    lock: statement(
      'lock archived',
      `select a.published_at, a.archive_id from ${archived} ${updateOf('a')} skip locked`,
    ),
    remove: statement('purge', `delete a from ${archived}`),
    forget: statement(
      'forget',
      `update ${lookUp(jsonTable({ a: 'bigint unsigned' }), `${audit} a`)} on a.audit_id = k.a
      set a.kept = null, a.kept_payload = null where a.kept is not null`,
    ),
  };
}
