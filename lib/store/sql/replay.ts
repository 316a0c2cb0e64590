import { REPLAY_MARK } from '../../message/replay-header.js';
import type { NewMessage } from '../../outbox-message.js';
import { systemClock } from '../../time/clock.js';
import {
  ActionEnded,
  BULK_LOOK,
  BULK_TIMEOUT,
  unlessEnded,
  type AuditOutcome,
  type ArchivedMessage,
  type ArchivePage,
  type ReplayFilter,
  type ReplayRequest,
  type ReplayStep,
  type ReplayStore,
} from '../bulk-store.js';
import type { SqlExecutor } from '../executor.js';
import type { StoredRow } from '../inspect-store.js';
import { literal } from '../names.js';
import type { MessageWriter } from '../outbox-store.js';
import { readPosition, writePosition, type PositionPart } from '../position.js';
import type { Sql, Statement } from '../sql.js';
import { ALWAYS, allOf, condition, type Conditions } from './conditions.js';
import { readText } from './dialect.js';
import { indexPage, type IndexedRows, type TimedSelects } from './index-pages.js';
import type { OperatorDatabase } from './operator-database.js';

export interface ReplaySql {
  /** The archive in the order of the publishing; `columns` are those of {@link readRow}. */
  readonly archive: IndexedRows;
  readonly readRow: (row: readonly unknown[]) => StoredRow;
  /** What messages are made of that stand at these positions, in their order: what follows `select`. */
  content(places: readonly (readonly string[])[]): { readonly rest: string; readonly values: readonly unknown[] };
  /** Id and transport of what is parked among these. */
  parkedAmong(ids: readonly string[]): Sql;
  /** Done, skipped, new state, number, state. */
  readonly step: Statement;
  /** New state, number, state. */
  readonly resume: Statement;
  /** Outcome, error, number, state. */
  readonly end: Statement;
}

/** Reads the archive in the order of its index, and inserts as an enqueue does. */
export class ReplayTable implements ReplayStore {
  private readonly shape: PositionPart[];
  private readonly rows: IndexedRows;

  constructor(
    private readonly database: OperatorDatabase,
    private readonly reads: TimedSelects,
    private readonly sql: ReplaySql,
    private readonly writer: MessageWriter,
  ) {
    const { archive } = sql;
    this.shape = archive.order.map(({ part }) => part);
    this.rows = { ...archive, columns: [...archive.columns, BYTES, IS_REPLAY] };
  }

  async find({ filter, after, limit }: ReplayRequest): Promise<ArchivePage> {
    const { dialect } = this.database;
    const { ids } = filter;
    const request = {
      after: after === null ? undefined : readPosition(after, this.shape),
      range: this.between(filter),
      meant: allOf([dialect.filtered(filter), ids === undefined ? ALWAYS : dialect.named(ids)]),
      limit,
      look: BULK_LOOK,
    };
    const { rows, positions, next } = await indexPage(this.reads, dialect, this.rows, request, deadline());
    return {
      rows: rows.map((row, n) => ({
        row: this.sql.readRow(row),
        position: writePosition(positions[n] as string[]),
        bytes: Number(row.at(-2)),
        isReplay: dialect.isTrue(row.at(-1)),
      })),
      next: next === undefined ? null : writePosition(next),
    };
  }

  private between({ from, before }: ReplayFilter): Conditions {
    const { dialect } = this.database;
    return allOf([
      condition('o.published_at < ?', dialect.time(before)),
      from === null ? ALWAYS : condition('o.published_at >= ?', dialect.time(from)),
    ]);
  }

  async read(positions: readonly string[]): Promise<ArchivedMessage[]> {
    const { rest, values } = this.sql.content(positions.map((position) => readPosition(position, this.shape)));
    return (await this.reads.select(deadline(), rest, values)).map((row) => this.readContent(row));
  }

  write(step: ReplayStep, messages: readonly NewMessage[], skipped: number): Promise<number | undefined> {
    return unlessEnded(this.database.transaction((tx) => this.writeIn(tx, step, messages, skipped)));
  }

  /** The step locks its row: whoever goes on with the same replay waits here, and then writes nothing. */
  private async writeIn(
    tx: SqlExecutor,
    { audit, from, to }: ReplayStep,
    messages: readonly NewMessage[],
    skipped: number,
  ): Promise<number> {
    const ids = messages.map(({ id }) => id);
    const found = ids.length === 0 ? [] : (await tx.run(this.sql.parkedAmong(ids))).rows;
    const parked = new Set(found.map((row) => row.join(' ')));
    const fresh = messages.filter(({ id, transport }) => !parked.has(`${id} ${transport}`));
    const left = skipped + messages.length - fresh.length;
    const { affected } = await tx.run(this.sql.step.bind(fresh.length, left, to, this.number(audit), from));
    if (affected === 0) throw new ActionEnded();
    if (fresh.length > 0) await this.writer.insert(tx, fresh);
    return fresh.length;
  }

  async resume({ audit, from, to }: ReplayStep): Promise<boolean> {
    return (await this.database.run(this.sql.resume.bind(to, this.number(audit), from))).affected > 0;
  }

  async end(audit: string, state: string, outcome: AuditOutcome, error: string | null): Promise<boolean> {
    return (await this.database.run(this.sql.end.bind(outcome, error, this.number(audit), state))).affected > 0;
  }

  private number(audit: string): unknown {
    return this.database.dialect.number(audit);
  }

  private readContent(row: readonly unknown[]): ArchivedMessage {
    const { dialect } = this.database;
    const [id, transport, topic, key, type, version, contentType, headers, options, payload] = row;
    return {
      id: String(id),
      transport: Number(transport),
      topic: String(topic),
      key: dialect.readKey(key),
      type: String(type),
      version: Number(version),
      contentType: String(contentType),
      headers: readText(headers),
      options: readText(options),
      payload: dialect.readBytes(payload),
    };
  }
}

const BYTES = 'coalesce(octet_length(o.payload), 0) + coalesce(octet_length(o.headers), 0)';
const IS_REPLAY = `coalesce(o.headers like ${literal(`%${REPLAY_MARK}%`)}, false)`;
const deadline = (): number => systemClock.monotonic() + BULK_TIMEOUT;
