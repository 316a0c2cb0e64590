import { REPLAY_MARK } from '../../../message/replay-header.js';
import type { NewMessage } from '../../../outbox-message.js';
import { systemClock } from '../../../time/clock.js';
import {
  ActionEnded,
  BULK_LOOK,
  BULK_TIMEOUT,
  unlessEnded,
  type AuditOutcome,
  type ArchivedMessage,
  type ArchivedRow,
  type ArchivePage,
  type ReplayFilter,
  type ReplayRequest,
  type ReplayStep,
  type ReplayStore,
} from '../../bulk-store.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import { literal, type TableNames } from '../../names.js';
import { readPosition, writePosition } from '../../position.js';
import { statement } from '../../sql.js';
import { readKey, type Row } from '../columns.js';
import { filterOf } from '../inspect/pages.js';
import { readRow, ROW_LENGTH } from '../inspect/rows.js';
import { TimedSelect } from '../inspect/select.js';
import { compared, stripOf, type Strip } from '../inspect/strips.js';
import { jsonRows, jsonTable, lookUp } from '../json-rows.js';
import type { MysqlInsert } from '../ready/insert.js';
import { inTransaction, retried } from '../../retry.js';
import type { MysqlServer } from '../schema/server.js';
import { marks } from '../statements.js';
import type { Conditions } from '../inspect/text-conditions.js';

/** Reads the archive in the order of the times in it, and inserts as {@link MysqlInsert} does. */
export class MysqlReplay implements ReplayStore {
  /** @internal */ readonly select: TimedSelect;
  /** @internal */ readonly sql: ReturnType<typeof statements>;
  /** @internal */ readonly strip: Strip;
  /** @internal */ readonly from: string;

  constructor(
    readonly database: SqlDatabase,
    server: MysqlServer,
    readonly names: TableNames,
    readonly writer: MysqlInsert,
  ) {
    this.select = new TimedSelect(database, server);
    this.sql = statements(names);
    this.strip = stripOf('published', {}, names, { transports: [], bucket: undefined });
    this.from = `${names.archive} force index (by_time)`;
  }

  /** First where a bounded piece of the index ends, then what of it the filter means. */
  async find({ filter, after, limit }: ReplayRequest): Promise<ArchivePage> {
    const behind = after === null ? undefined : readPosition(after, this.shape);
    const range = this.range(filter, behind);
    const [last] = await this.selected(
      `${NAMES} from ${this.from} where ${range.conditions.join(' and ')} order by ${NAMES} limit 1 offset ${BULK_LOOK - 1}`,
      range.values,
    );
    const end = last?.map(String);
    const rows = (await this.selected(...this.rowsRest(filter, range, end, limit))).map(archived);
    const next = rows.length < limit ? end && writePosition(end) : rows.at(-1)?.position;
    return { rows, next: next ?? null };
  }

  /** @internal */ rowsRest(
    filter: ReplayFilter,
    range: Conditions,
    end: readonly string[] | undefined,
    limit: number,
  ): [rest: string, values: unknown[]] {
    const { ids, transport } = filter;
    const upTo = end === undefined ? NOTHING : compared(this.strip, '<=', end);
    const meant = filterOf(filter, { isLong: true });
    const named = ids === undefined ? NOTHING : { conditions: [`id in (${marks(ids.length)})`], values: ids };
    const of = transport === undefined ? NOTHING : { conditions: ['transport = ?'], values: [transport] };
    const all = [range, upTo, of, meant, named];
    const conditions = all.flatMap((one) => one.conditions).join(' and ');
    return [
      `${this.strip.columns}, ${NAMES}, coalesce(octet_length(payload), 0) + coalesce(octet_length(headers), 0),
        coalesce(headers like ${literal(`%${REPLAY_MARK}%`)}, 0) from ${this.from} where ${conditions} order by ${NAMES} limit ?`,
      [...all.flatMap((one) => one.values), limit],
    ];
  }

  /** @internal What the index alone tells. */
  range({ from, before }: ReplayFilter, after: readonly string[] | undefined): Conditions {
    const behind = after === undefined ? NOTHING : compared(this.strip, '>', after);
    const begin = from === null ? NOTHING : { conditions: ['published_at >= ?'], values: [timeText(from)] };
    return {
      conditions: ['published_at < ?', ...begin.conditions, ...behind.conditions],
      values: [timeText(before), ...begin.values, ...behind.values],
    };
  }

  async read(positions: readonly string[]): Promise<ArchivedMessage[]> {
    const places = positions.map((position) => readPosition(position, this.shape) as [time: string, id: string]);
    const list = lookUp(jsonTable({ t: 'datetime(6)', a: 'bigint unsigned' }), `${this.names.archive} o`);
    const rest = `${CONTENT} from ${list} on o.archive_id = k.a and o.published_at = k.t`;
    return (await this.selected(rest, [jsonRows(places.map(([time, id]) => [time, BigInt(id)]))])).map(readArchived);
  }

  write(step: ReplayStep, messages: readonly NewMessage[], skipped: number): Promise<number | undefined> {
    const admin = this.database.connection('admin');
    return unlessEnded(inTransaction(admin, (tx) => this.writeIn(tx, step, messages, skipped)));
  }

  /** @internal The step first: its row is locked, and whoever goes on with the same replay waits here, and then writes nothing. */
  async writeIn(
    tx: SqlExecutor,
    { audit, from, to }: ReplayStep,
    messages: readonly NewMessage[],
    skipped: number,
  ): Promise<number> {
    const parked = await this.parkedAmong(tx, messages);
    const fresh = messages.filter(({ id, transport }) => !parked.has(`${id} ${transport}`));
    const left = skipped + messages.length - fresh.length;
    const { affected } = await tx.run(this.sql.step.bind(fresh.length, left, to, BigInt(audit), from));
    if (affected === 0) throw new ActionEnded();
    if (fresh.length > 0) await this.writer.insert(tx, fresh);
    return fresh.length;
  }

  /** @internal */ async parkedAmong(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<Set<string>> {
    if (messages.length === 0) return new Set();
    const ids = messages.map(({ id }) => id);
    const text = `select id, transport from ${this.names.parked} force index (by_id) where id in (${marks(ids.length)})`;
    return new Set((await tx.run(statement(undefined, text).bind(...ids))).rows.map((row) => row.join(' ')));
  }

  async resume({ audit, from, to }: ReplayStep): Promise<boolean> {
    return (await this.run(this.sql.resume.bind(to, BigInt(audit), from))).affected > 0;
  }

  async end(audit: string, state: string, outcome: AuditOutcome, error: string | null): Promise<boolean> {
    return (await this.run(this.sql.end.bind(outcome, error, BigInt(audit), state))).affected > 0;
  }

  /** @internal */ run(sql: Parameters<SqlExecutor['run']>[0]): ReturnType<SqlExecutor['run']> {
    return retried(() => this.database.connection('admin').run(sql));
  }
  /** @internal */ get shape() {
    return this.strip.order.map(({ part }) => part);
  }
  /** @internal */ selected(rest: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return this.select.inTime(systemClock.monotonic() + BULK_TIMEOUT, rest, values);
  }
}

const NAMES = 'published_at, archive_id';
const NOTHING: Conditions = { conditions: [], values: [] };
const CONTENT =
  'o.id, o.transport, o.topic, o.`key`, o.type, o.version, o.content_type, o.headers, o.options, o.payload';
const timeText = (time: Date): string => time.toISOString().replace('T', ' ').replace('Z', '');

function statements({ audit }: TableNames) {
  // Bytes: an order of texts may know no difference between two of them.
  const open = 'touched_at = utc_timestamp(6) where audit_id = ? and cast(filter as binary) = cast(? as binary)';
  return {
    step: statement(
      'step of a replay',
      `update ${audit} set done = done + ?, skipped = skipped + ?, filter = ?, ${open} and ended_at is null`,
    ),
    resume: statement(
      'resume a replay',
      `update ${audit} set filter = ?, outcome = null, error = null, ended_at = null, ${open}
      and action = 'replay' and coalesce(outcome, '') <> 'done'`,
    ),
    end: statement(
      'end a replay',
      `update ${audit} set outcome = ?, error = ?, ended_at = utc_timestamp(6), ${open} and ended_at is null`,
    ),
  };
}

function archived(row: Row): ArchivedRow {
  const [time, id, bytes, isReplay] = row.slice(ROW_LENGTH);
  return {
    row: readRow(row),
    position: writePosition([time, id]),
    bytes: Number(bytes),
    isReplay: Number(isReplay) === 1,
  };
}

function readArchived(row: Row): ArchivedMessage {
  const [id, transport, topic, key, type, version, contentType, headers, options, payload] = row;
  return {
    id: String(id),
    transport: Number(transport),
    topic: String(topic),
    key: readKey(key),
    type: String(type),
    version: Number(version),
    contentType: String(contentType),
    headers: headers as string | null,
    options: options as string | null,
    payload: payload as Buffer | null,
  };
}
