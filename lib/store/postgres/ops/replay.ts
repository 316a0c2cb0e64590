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
import type { SqlConnection, SqlExecutor } from '../../executor.js';
import { literal, type StoreSettings, type TableNames } from '../../names.js';
import { readPosition, writePosition } from '../../position.js';
import type { Sql } from '../../sql.js';
import { plainArray } from '../arrays.js';
import { readPayload } from '../columns.js';
import { filterSql } from '../inspect/pages.js';
import { readRow, ROW_LENGTH } from '../inspect/rows.js';
import { compared, positionOf, shapeOf, stripOf, type Strip } from '../inspect/strips.js';
import { TimedReads } from '../inspect/timed-reads.js';
import type { PostgresInsert } from '../ready/insert.js';
import { inTransaction } from '../../retry.js';
import { statement } from '../statement.js';

/** Reads the archive in the order of its key, and inserts as {@link PostgresInsert} does. */
export class PostgresReplay implements ReplayStore {
  /** @internal */ readonly reads: TimedReads;
  /** @internal */ readonly sql: ReturnType<typeof statements>;
  /** @internal */ readonly strip: Strip;

  constructor(
    readonly connection: () => SqlConnection,
    readonly names: TableNames,
    settings: StoreSettings,
    readonly writer: PostgresInsert,
  ) {
    this.reads = new TimedReads(connection);
    this.sql = statements(names);
    this.strip = stripOf('published', {}, names, settings);
  }

  /** First where a bounded piece of the key ends, then what of it the filter means. */
  async find({ filter, after, limit }: ReplayRequest): Promise<ArchivePage> {
    const behind = after === null ? undefined : readPosition(after, shapeOf(this.strip));
    const end = (await this.reads.inTime(deadline(), this.endSql(filter, behind))).rows[0]?.map(String);
    const { rows } = await this.reads.inTime(deadline(), this.rowsSql(filter, behind, end, limit));
    const found = rows.map((row) => this.archived(row));
    const last = found.length < limit ? end && writePosition(end) : found.at(-1)?.position;
    return { rows: found, next: last ?? null };
  }

  /** @internal Where the look ends; no row: at the end. */
  endSql(filter: ReplayFilter, after: readonly string[] | undefined): Sql {
    const { text, values } = this.range(filter, after);
    return statement(
      undefined,
      `select ${positionOf(this.strip)} from ${this.names.archive} o where ${text} order by ${ORDER} offset ${BULK_LOOK - 1} limit 1`,
    ).bind(...values);
  }

  /** @internal */ rowsSql(
    filter: ReplayFilter,
    after: readonly string[] | undefined,
    end: readonly string[] | undefined,
    limit: number,
  ): Sql {
    const { ids } = filter;
    const range = this.range(filter, after);
    const meant = filterSql(filter);
    const upTo = end === undefined ? '' : ` and ${compared(this.strip, '<=')}`;
    const named = ids === undefined ? '' : ' and o.id = any(?::uuid[])';
    return statement(
      undefined,
      `select ${this.strip.columns}, ${positionOf(this.strip)}, coalesce(octet_length(o.payload), 0) + coalesce(octet_length(o.headers), 0),
         coalesce(o.headers like ${literal(`%${REPLAY_MARK}%`)}, false)
       from ${this.names.archive} o where ${range.text}${upTo}${meant.text}${named} order by ${ORDER} limit ?`,
    ).bind(...range.values, ...(end ?? []), ...meant.values, ...(ids === undefined ? [] : [plainArray(ids)]), limit);
  }

  /** @internal What the key alone tells. */
  range({ from, before }: ReplayFilter, after: readonly string[] | undefined): { text: string; values: unknown[] } {
    const conditions = [
      'o.published_at < ?::timestamptz',
      ...(from === null ? [] : ['o.published_at >= ?::timestamptz']),
      ...(after === undefined ? [] : [compared(this.strip, '>')]),
    ];
    const times = from === null ? [before] : [before, from];
    return {
      text: conditions.join(' and '),
      values: [...times.map((time) => time.toISOString()), ...(after ?? [])],
    };
  }

  /** @internal */ archived(row: readonly unknown[]): ArchivedRow {
    const [bytes, isReplay] = row.slice(ROW_LENGTH + this.strip.order.length);
    return {
      row: readRow(row),
      position: writePosition(row.slice(ROW_LENGTH, ROW_LENGTH + this.strip.order.length)),
      bytes: Number(bytes),
      isReplay: isReplay === 't',
    };
  }

  async read(positions: readonly string[]): Promise<ArchivedMessage[]> {
    const places = positions.map((position) => readPosition(position, shapeOf(this.strip)));
    const columns = this.strip.order.map((_, n) => plainArray(places.map((place) => place[n] as string)));
    return (await this.reads.inTime(deadline(), this.sql.read.bind(...columns))).rows.map(readArchived);
  }

  write(step: ReplayStep, messages: readonly NewMessage[], skipped: number): Promise<number | undefined> {
    return unlessEnded(inTransaction(this.connection(), (tx) => this.writeIn(tx, step, messages, skipped)));
  }

  /** @internal The step first: its row is locked, and whoever goes on with the same replay waits here, and then writes nothing. */
  async writeIn(
    tx: SqlExecutor,
    { audit, from, to }: ReplayStep,
    messages: readonly NewMessage[],
    skipped: number,
  ): Promise<number> {
    const ids = plainArray(messages.map(({ id }) => id));
    const parked = new Set((await tx.run(this.sql.parked.bind(ids))).rows.map((row) => row.join(' ')));
    const fresh = messages.filter(({ id, transport }) => !parked.has(`${id} ${transport}`));
    const left = skipped + messages.length - fresh.length;
    const { affected } = await tx.run(this.sql.step.bind(fresh.length, left, to, audit, from));
    if (affected === 0) throw new ActionEnded();
    if (fresh.length > 0) await this.writer.insert(tx, fresh);
    return fresh.length;
  }

  async resume({ audit, from, to }: ReplayStep): Promise<boolean> {
    return (await this.connection().run(this.sql.resume.bind(to, audit, from))).affected > 0;
  }

  async end(audit: string, state: string, outcome: AuditOutcome, error: string | null): Promise<boolean> {
    return (await this.connection().run(this.sql.end.bind(outcome, error, audit, state))).affected > 0;
  }
}

const ORDER = 'o.published_at, o.transport, o.bucket, o.seq';
const deadline = (): number => systemClock.monotonic() + BULK_TIMEOUT;

function statements({ archive, parked, audit }: TableNames) {
  const open = `touched_at = clock_timestamp() where audit_id = ?::bigint and filter = ?`;
  return {
    read: statement(
      undefined,
      `select o.id, o.transport, o.topic, o.key, o.type, o.version, o.content_type, o.headers, o.options, o.payload
       from unnest(?::timestamptz[], ?::smallint[], ?::smallint[], ?::bigint[]) with ordinality k(p, t, b, s, n)
       cross join lateral (select * from ${archive} a
         where a.published_at = k.p and a.transport = k.t and a.bucket = k.b and a.seq = k.s offset 0) o order by k.n`,
    ),
    parked: statement(undefined, `select o.id, o.transport from ${parked} o where o.id = any(?::uuid[])`),
    step: statement(
      undefined,
      `update ${audit} set done = done + ?::bigint, skipped = skipped + ?::bigint, filter = ?, ${open} and ended_at is null`,
    ),
    resume: statement(
      undefined,
      `update ${audit} set filter = ?, outcome = null, error = null, ended_at = null, ${open}
       and action = 'replay' and outcome is distinct from 'done'`,
    ),
    end: statement(
      undefined,
      `update ${audit} set outcome = ?, error = ?, ended_at = clock_timestamp(), ${open} and ended_at is null`,
    ),
  };
}

function readArchived(row: readonly unknown[]): ArchivedMessage {
  const [id, transport, topic, key, type, version, contentType, headers, options, payload] = row;
  return {
    id: id as string,
    transport: Number(transport),
    topic: topic as string,
    key: key as string | null,
    type: type as string,
    version: Number(version),
    contentType: contentType as string,
    headers: headers as string | null,
    options: options as string | null,
    payload: readPayload(payload as string | null, 'bytes') as Buffer | null,
  };
}
