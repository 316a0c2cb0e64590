import type {
  EditableContent,
  EditableRow,
  EditOutcome,
  EditRequest,
  EditStore,
  KeptRequest,
  KeptRow,
  ParkedPlace,
  RowVersion,
} from '../edit/edit-store.js';
import { isFreed } from '../edit/is-freed.js';
import { keptText, revisionOf } from '../edit/revision.js';
import type { SqlExecutor, SqlResult } from '../executor.js';
import { stateName } from '../parked-state.js';
import type { Sql, Statement } from '../sql.js';
import type { AuditTable } from './audit.js';
import { readText, type Dialect } from './dialect.js';
import type { OperatorDatabase } from './operator-database.js';

/** The number of a row is the last value of each. */
export interface EditSql {
  /** Where a message of this id waits: number, transport, state. */
  readonly places: Statement;
  /** Of {@link RowVersion} the columns in their order. */
  readonly version: Statement;
  /** The same with the payload behind it. */
  readonly read: Statement;
  /** Actor, filter, what it was beside its payload, which does not leave the server. */
  readonly keep: Statement;
  /** What edits kept, the last first. */
  kept(request: KeptRequest): Sql;
  update(set: readonly Column[], isDue: boolean): Statement;
}
export type Column = (typeof COLUMNS)[keyof EditableContent];

const COLUMNS = {
  topic: 'topic',
  type: 'type',
  contentType: 'content_type',
  headers: 'headers',
  options: 'options',
  payload: 'payload',
} as const satisfies Record<keyof EditableContent, string>;

/** What guards a row while it is changed, and how it is made due: the store's own way with parked rows. */
export interface ParkedRows {
  /** Locks its lease, and then the row: nobody can take it until the commit. */
  hold(tx: SqlExecutor, rowId: string): Promise<'held' | 'sending' | 'gone'>;
  /** One that is held. */
  requeueHeld(tx: SqlExecutor, row: ParkedPlace): Promise<unknown>;
}

/** One message that waits is corrected. */
export class EditTable implements EditStore {
  private readonly dialect: Dialect;

  constructor(
    private readonly database: OperatorDatabase,
    private readonly sql: EditSql,
    private readonly rows: ParkedRows,
    private readonly audits: AuditTable,
  ) {
    this.dialect = database.dialect;
  }

  async places(id: string): Promise<ParkedPlace[]> {
    const { rows } = await this.database.run(this.sql.places.bind(id));
    return rows.map(([rowId, transport, state]) => ({
      rowId: String(rowId),
      transport: Number(transport),
      state: stateName(state),
    }));
  }

  version(rowId: string): Promise<RowVersion | undefined> {
    return this.versionIn(this.database, rowId);
  }

  async read(rowId: string): Promise<EditableRow | undefined> {
    const result = await this.database.run(this.sql.read.bind(this.dialect.number(rowId)));
    const version = this.versionOf(result);
    return version && { ...version, payload: this.dialect.readBytes(result.rows[0]?.at(-1)) };
  }

  edit(request: EditRequest): Promise<EditOutcome> {
    return this.database.transaction((tx) => this.editIn(tx, request));
  }

  async kept(request: KeptRequest): Promise<KeptRow[]> {
    return (await this.audits.run(this.sql.kept(request))).rows.map((row) => this.readKept(row));
  }

  /** Leases first, then the row: it is looked at by statements that begin when nobody can take it any more. */
  private async editIn(
    tx: SqlExecutor,
    { rowId, revision, changes, requeue, actor, filter }: EditRequest,
  ): Promise<EditOutcome> {
    const held = await this.rows.hold(tx, rowId);
    if (held !== 'held') return { outcome: held === 'gone' ? 'changed' : 'sending' };
    const before = await this.versionIn(tx, rowId);
    if (before === undefined || revisionOf(before) !== revision) return { outcome: 'changed' };
    const number = this.dialect.number(rowId);
    const audit = await this.database.insert(tx, this.sql.keep.bind(actor, filter, keptText(before), number));
    const given = (Object.keys(COLUMNS) as (keyof EditableContent)[]).filter((name) => changes[name] !== undefined);
    const update = this.sql.update(
      given.map((name) => COLUMNS[name]),
      isFreed(before, changes),
    );
    await tx.run(update.bind(...given.map((name) => changes[name]), number));
    if (requeue) await this.rows.requeueHeld(tx, before);
    const after = (await this.versionIn(tx, rowId)) as RowVersion;
    return { outcome: 'edited', audit, revision: revisionOf(after) };
  }

  private async versionIn(executor: SqlExecutor, rowId: string): Promise<RowVersion | undefined> {
    return this.versionOf(await executor.run(this.sql.version.bind(this.dialect.number(rowId))));
  }

  private versionOf({ rows }: SqlResult): RowVersion | undefined {
    const [row] = rows;
    if (row === undefined) return undefined;
    const [rowId, transport, state, id, version, attempts, isFit, ...content] = row;
    const [topic, key, type, contentType, headers, options, payloadHash] = content;
    return {
      rowId: String(rowId),
      transport: Number(transport),
      state: stateName(state),
      id: String(id),
      version: Number(version),
      attempts: Number(attempts),
      fits: this.dialect.isTrue(isFit),
      topic: readText(topic) ?? '',
      key: this.dialect.readKey(key),
      type: readText(type) ?? '',
      contentType: readText(contentType) ?? '',
      headers: readText(headers),
      options: readText(options),
      payloadHash: readText(payloadHash),
    };
  }

  private readKept([audit, id, actor, at, filter, kept, bytes, preview]: readonly unknown[]): KeptRow {
    return {
      audit: String(audit),
      id: String(id),
      actor: String(actor),
      at: this.dialect.readDate(at),
      filter: String(filter),
      kept: readText(kept),
      payloadBytes: bytes === null ? null : Number(bytes),
      preview: this.dialect.readBytes(preview),
    };
  }
}
