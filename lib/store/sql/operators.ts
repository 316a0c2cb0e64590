import type { MessageWriter } from '../outbox-store.js';
import type { NewMessage } from '../../outbox-message.js';
import { systemClock } from '../../time/clock.js';
import type { SqlExecutor } from '../executor.js';
import { isFreed, keptText, revisionOf, type EditableContent, type KeptContent, type RowVersion } from '../edit.js';
import { BULK_TIMEOUT } from '../inspect-store.js';
import type { StoreSettings, TableNames } from '../names.js';
import type {
  ActReport,
  ArchivedMessage,
  AuditRequest,
  AuditRow,
  EditStep,
  NewAction,
  OperatorStore,
  PauseStep,
  Refusal,
  Step,
  StepReport,
  WorkStep,
} from '../operator-store.js';
import { stateName } from '../parked-state.js';
import { readNamedPause, scopeColumns, type NamedPause } from '../pauses/pause-store.js';
import { readPosition, type PositionPart } from '../position.js';
import type { Sql, Statement } from '../sql.js';
import { AuditTable, unlessEnded } from './audit.js';
import { readText, type Dialect } from './dialect.js';
import type { OperatorDatabase } from './operator-database.js';
import { RowChanges, type RowPlace, type RowSql } from './row-changes.js';
import type { Rows, Select, TimedSelects } from './timed-selects.js';
import type { KeyWake } from './wake.js';

/** What operators ask and do, in the words of one database. */
export interface OperatorSql extends RowSql {
  /** Of {@link KeptContent} and {@link RowVersion} of a parked row what {@link Operators} reads: its number. */
  readonly version: Statement;
  /** Transport, topic, key, actor, reason. One that is there already stays. */
  readonly pause: Statement;
  /** Transport, topic, key. */
  readonly resume: Statement;
  /** The oldest first, as {@link readNamedPause} reads them. */
  readonly pauses: Statement;
  /** What a position in the archive is made of. */
  readonly archiveShape: readonly PositionPart[];
  /** What messages are made of that stand at these positions, in their order. */
  content(places: Rows): Select;
  /** Milliseconds, limit. */
  cleanAudit(age: number, limit: number): Sql;
}
/** The dedup keys of what is deleted. */
export interface DedupKeys<Key> {
  /** Asked before the transaction: those that may be free. */
  before(rows: readonly RowPlace[]): Promise<Key>;
  /** In it. */
  free(tx: SqlExecutor, before: Key, deleted: readonly RowPlace[]): Promise<unknown>;
  /** Behind it: those that somebody held. */
  after(deleted: readonly RowPlace[]): Promise<void>;
}
export interface OperatorParts<Key> {
  readonly database: OperatorDatabase;
  readonly reads: TimedSelects;
  readonly keys: DedupKeys<Key>;
  readonly wake: KeyWake;
  readonly writer: MessageWriter;
}

const COLUMNS = {
  topic: 'topic',
  type: 'type',
  contentType: 'content_type',
  headers: 'headers',
  options: 'options',
  payload: 'payload',
} as const satisfies Record<keyof EditableContent, string>;

/** Undoes an edit that may not be. */
class Refused extends Error {
  constructor(readonly refused: Refusal['refused']) {
    super(refused);
  }
}

/** What operators do, once for all databases. */
export class Operators<Key> implements OperatorStore {
  readonly audits: AuditTable;
  private readonly dialect: Dialect;
  private readonly rows: RowChanges;

  constructor(
    readonly parts: OperatorParts<Key>,
    private readonly names: TableNames,
    private readonly sql: OperatorSql,
    settings: StoreSettings,
  ) {
    const { database, wake } = parts;
    this.dialect = database.dialect;
    this.audits = new AuditTable(database, names, sql.cleanAudit);
    this.rows = new RowChanges(this.dialect, sql, wake, settings);
  }

  begin(action: NewAction): Promise<string> {
    return this.parts.database.transaction((tx) => this.audits.begin(tx, action));
  }

  async step(audit: string, step: Step): Promise<StepReport | undefined> {
    const { keys, database } = this.parts;
    if (step.do === 'end' || step.do === 'reopen') {
      const { affected } = await database.run(this.audits.mark(audit, step));
      return affected === 0 ? undefined : { done: 0, skipped: 0, ids: [] };
    }
    const isDeletion = step.do === 'discard' || step.do === 'cancel' || step.do === 'cancel ready';
    const free = isDeletion ? await keys.before(step.rows) : undefined;
    const written = database.transaction(async (tx) => {
      const report = await this.stepIn(tx, audit, step);
      if (isDeletion) await keys.free(tx, free as Key, report.rows);
      return report;
    });
    const report = await unlessEnded(written);
    if (report === undefined) return undefined;
    if (isDeletion) await this.rows.wakeBehind(database, report.rows).catch(() => undefined); // relays ask in turn, too
    if (isDeletion) await keys.after(report.rows);
    return { done: report.done, skipped: report.skipped, ids: report.rows.map(({ id }) => id) };
  }

  async act(action: NewAction, step: WorkStep): Promise<ActReport | Refusal> {
    try {
      return await this.parts.database.transaction(async (tx) => {
        const audit = await this.audits.begin(tx, action);
        const { done, revision } = await this.stepIn(tx, audit, step);
        await tx.run(this.audits.mark(audit, { do: 'end', outcome: 'done', error: null }));
        return { audit, done, ...(revision === undefined ? {} : { revision }) };
      });
    } catch (error) {
      if (error instanceof Refused) return { refused: error.refused };
      throw error;
    }
  }

  private async stepIn(tx: SqlExecutor, audit: string, step: WorkStep): Promise<Written> {
    const { asked, ...written } = await this.write(tx, audit, step);
    const skipped = Math.max(0, asked - written.done);
    await this.audits.count(tx, audit, [written.done, skipped], step.do === 'insert' ? step : undefined);
    return { rows: [], ...written, skipped };
  }

  private async write(
    tx: SqlExecutor,
    audit: string,
    step: WorkStep,
  ): Promise<Pick<Written, 'done'> & Partial<Written> & { asked: number }> {
    switch (step.do) {
      case 'requeue':
      case 'discard':
      case 'cancel':
        return changed(step, await this.rows.change(tx, step));
      case 'cancel ready':
        return changed(step, await this.rows.cancelReady(tx, step));
      case 'release': {
        const all = this.dialect.statement(undefined, `select id from ${this.names.transports} order by id`);
        const transports =
          step.transport === undefined ? (await tx.run(all.bind())).rows.map(([id]) => Number(id)) : [step.transport];
        return every(await this.rows.release(tx, step.key, transports));
      }
      case 'purge': {
        const places = step.positions.map((position) => readPosition(position, this.sql.archiveShape));
        return { done: (await this.rows.removeArchived(tx, places)).length, asked: places.length };
      }
      case 'forget':
        return { done: (await tx.run(this.audits.forget(step.edits))).affected, asked: step.edits.length };
      case 'insert': {
        const done = await this.insert(tx, step.messages);
        return { done, asked: step.messages.length + step.skipped };
      }
      case 'edit':
        return { ...every(1), revision: await this.edit(tx, audit, step) };
      default:
        return every((await tx.run(this.pausing(step))).affected);
    }
  }

  private pausing({ do: what, scope, actor, reason }: PauseStep): Sql {
    const columns = scopeColumns(scope);
    return what === 'pause' ? this.sql.pause.bind(...columns, actor, reason) : this.sql.resume.bind(...columns);
  }

  private async insert(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<number> {
    if (messages.length === 0) return 0;
    const { conditions, values } = this.dialect.named(
      'id',
      messages.map(({ id }) => id),
    );
    const among = `select id, transport from ${this.names.parked} where ${conditions.join(' and ')}`;
    const { rows } = await tx.run(this.dialect.statement(undefined, among).bindAll(values));
    const parked = new Set(rows.map((row) => row.join(' ')));
    const fresh = messages.filter(({ id, transport }) => !parked.has(`${id} ${transport}`));
    if (fresh.length > 0) await this.parts.writer.insert(tx, fresh);
    return fresh.length;
  }

  /** It is looked at by statements that begin when nobody can take it any more. @throws Refused */
  private async edit(tx: SqlExecutor, audit: string, { row, revision, changes, requeue }: EditStep): Promise<string> {
    const { rowId } = row as { rowId: string };
    const isSent = await this.rows.isSent(tx, row);
    const before = await this.version(tx, rowId);
    if (before === undefined) throw new Refused('changed');
    if (isSent) throw new Refused('sending');
    if (revisionOf(before) !== revision) throw new Refused('changed');
    await tx.run(this.audits.keep(audit, { id: before.id, kept: keptText(before), rowId }));
    const given = (Object.keys(COLUMNS) as (keyof EditableContent)[]).filter((name) => changes[name] !== undefined);
    const set = given
      .map((name) => `${COLUMNS[name]} = ?`)
      .concat(isFreed(before, changes) ? [`due_at = ${this.dialect.now}`] : []);
    const update = `update ${this.names.parked} set ${set.join(', ')} where parked_id = ?`;
    const values = [...given.map((name) => changes[name]), this.dialect.number(rowId)];
    await tx.run(this.dialect.statement(undefined, update).bindAll(values));
    if (requeue) await this.rows.requeue(tx, rowId);
    return revisionOf((await this.version(tx, rowId)) as RowVersion);
  }

  private async version(
    tx: SqlExecutor,
    rowId: string,
  ): Promise<(KeptContent & RowVersion & { readonly id: string }) | undefined> {
    const [row] = (await tx.run(this.sql.version.bind(this.dialect.number(rowId)))).rows;
    if (row === undefined) return undefined;
    const [id, transport, state, version, attempts, topic, key, type, contentType, headers, options, payloadHash] = row;
    return {
      rowId,
      id: String(id),
      transport: Number(transport),
      state: stateName(state),
      version: Number(version),
      attempts: Number(attempts),
      topic: String(topic),
      key: this.dialect.readKey(key),
      type: String(type),
      contentType: String(contentType),
      headers: readText(headers),
      options: readText(options),
      payloadHash: readText(payloadHash),
    };
  }

  audit(request: AuditRequest): Promise<AuditRow[]> {
    return this.audits.list(request);
  }

  async archived(positions: readonly string[]): Promise<ArchivedMessage[]> {
    const content = this.sql.content(positions.map((position) => readPosition(position, this.sql.archiveShape)));
    const deadline = systemClock.monotonic() + BULK_TIMEOUT;
    return (await this.parts.reads.select(deadline, content)).map((row) => this.readContent(row));
  }

  async pauses(): Promise<NamedPause[]> {
    return (await this.parts.database.run(this.sql.pauses.bind())).rows.map(readNamedPause);
  }

  private readContent(row: readonly unknown[]): ArchivedMessage {
    const { dialect } = this;
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

interface Written {
  readonly done: number;
  readonly skipped: number;
  readonly rows: readonly RowPlace[];
  /** Of what an edit made. */
  readonly revision?: string;
}
const every = (done: number) => ({ done, asked: done });
const changed = ({ rows: { length: asked } }: { readonly rows: readonly unknown[] }, rows: readonly RowPlace[]) => ({
  done: rows.length,
  asked,
  rows,
});
