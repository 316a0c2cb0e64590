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
} from '../../edit/edit-store.js';
import { isFreed } from '../../edit/is-freed.js';
import { keptText, revisionOf } from '../../edit/revision.js';
import type { SqlDatabase, SqlExecutor } from '../../executor.js';
import { fits, LIMITED_COLUMNS } from '../../limits.js';
import type { TableNames } from '../../names.js';
import { statement, type Sql } from '../../sql.js';
import { readKey, stateName, stateNumber, type Row } from '../columns.js';
import { readDate } from '../inspect/rows.js';
import { inTransaction } from '../retry.js';
import type { MysqlAdmin } from './admin.js';
import type { MysqlAudit } from './audit.js';

const COLUMNS: Readonly<Record<keyof EditableContent, string>> = {
  topic: 'topic',
  type: 'type',
  contentType: 'content_type',
  headers: 'headers',
  options: 'options',
  payload: 'payload',
};

/** One message that waits is corrected. It guards what {@link MysqlAdmin} changes, in the same way. */
export class MysqlEdit implements EditStore {
  /** @internal */ readonly sql: ReturnType<typeof statements>;

  constructor(
    readonly database: SqlDatabase,
    readonly names: TableNames,
    readonly parts: { readonly admin: MysqlAdmin; readonly audits: MysqlAudit },
  ) {
    this.sql = statements(names);
  }

  async places(id: string): Promise<ParkedPlace[]> {
    const { rows } = await this.database.connection('admin').run(this.sql.places.bind(id));
    return rows.map(([rowId, transport, state]) => ({
      rowId: String(rowId),
      transport: Number(transport),
      state: stateName(state),
    }));
  }

  async version(rowId: string): Promise<RowVersion | undefined> {
    return versionOf((await this.database.connection('admin').run(this.sql.version.bind(BigInt(rowId)))).rows);
  }

  async read(rowId: string): Promise<EditableRow | undefined> {
    const { rows } = await this.database.connection('admin').run(this.sql.read.bind(BigInt(rowId)));
    const version = versionOf(rows);
    return version && { ...version, payload: rows[0]?.at(-1) as Buffer | null };
  }

  edit(request: EditRequest): Promise<EditOutcome> {
    return inTransaction(this.database.connection('admin'), (tx) => this.editIn(tx, request));
  }

  async kept({ id, before, limit, previewBytes }: KeptRequest): Promise<KeptRow[]> {
    const number = before === null ? [] : [BigInt(before)];
    const of = id === undefined ? [] : [id];
    const sql = keptSql(this.names, { ofOne: id !== undefined, isBehind: before !== null });
    return (await this.parts.audits.run(sql.bind(previewBytes, ...of, ...number, limit))).rows.map(readKept);
  }

  /** @internal Leases first, then the row: it is looked at by statements that begin when nobody can take it any more. */
  async editIn(
    tx: SqlExecutor,
    { rowId, revision, changes, requeue, actor, filter }: EditRequest,
  ): Promise<EditOutcome> {
    const id = BigInt(rowId);
    if (!(await this.parts.admin.holdUnsent(tx, rowId))) {
      const isThere = (await tx.run(this.sql.isThere.bind(id))).rows.length > 0;
      return { outcome: isThere ? 'sending' : 'changed' };
    }
    const before = versionOf((await tx.run(this.sql.version.bind(id))).rows);
    if (before === undefined || revisionOf(before) !== revision) return { outcome: 'changed' };
    await tx.run(this.sql.keep.bind(actor, filter, keptText(before), id));
    const audit = String((await tx.run(this.parts.audits.sql.number.bind())).rows[0]?.[0]);
    await tx.run(this.update(id, changes, isFreed(before, changes)));
    if (requeue) await this.parts.admin.change(tx, 'requeue', [stateNumber(before.state)], [rowId]);
    const after = versionOf((await tx.run(this.sql.version.bind(id))).rows) as RowVersion;
    return { outcome: 'edited', audit, revision: revisionOf(after) };
  }

  /** @internal */ update(id: bigint, changes: Partial<EditableContent>, isDue: boolean): Sql {
    const given = (Object.keys(COLUMNS) as (keyof EditableContent)[]).filter((name) => changes[name] !== undefined);
    const set = given.map((name) => `${COLUMNS[name]} = ?`).join(', ');
    const due = isDue ? ', due_at = utc_timestamp(6)' : '';
    return statement('edit', `update ${this.names.parked} set ${set}${due} where parked_id = ?`).bind(
      ...given.map((name) => changes[name]),
      id,
    );
  }
}

function statements({ parked, audit }: TableNames) {
  const byId = `from ${parked} p where p.parked_id = ?`;
  const isFit = `(${fits(LIMITED_COLUMNS, 'p.')}) is not false`;
  const text = (column: string): string => `case when ${isFit} then ${column} end`;
  const texts = ['p.topic', 'p.`key`', 'p.type', 'p.content_type', 'p.headers', 'p.options'].map(text).join(', ');
  const version = `p.parked_id, p.transport, p.state, p.id, p.version, p.attempts, ${isFit}, ${texts}, ${text('sha2(p.payload, 256)')}`;
  return {
    places: statement(
      'places to edit',
      `select p.parked_id, p.transport, p.state from ${parked} p force index (by_id) where p.id = ? order by p.transport, p.seq, p.parked_id`,
    ),
    version: statement('version', `select ${version} ${byId}`),
    read: statement('read to edit', `select ${version}, ${text('p.payload')} ${byId}`),
    isThere: statement('is it there', `select 1 ${byId}`),
    /** The payload does not leave the server. */
    keep: statement(
      'keep',
      `insert into ${audit} (action, actor, filter, done, outcome, ended_at, message_id, kept, kept_payload)
      select 'edit', ?, ?, 1, 'done', utc_timestamp(6), p.id, ?, p.payload ${byId}`,
    ),
  };
}

function keptSql({ audit }: TableNames, { ofOne, isBehind }: { ofOne: boolean; isBehind: boolean }) {
  const conditions = [ofOne ? 'message_id = ?' : 'message_id is not null', ...(isBehind ? ['audit_id < ?'] : [])];
  return statement(
    'kept',
    `select audit_id, message_id, actor, begun_at, filter, kept, octet_length(kept_payload), substring(kept_payload, 1, ?)
    from ${audit} where ${conditions.join(' and ')} order by audit_id desc limit ?`,
  );
}

const textOrNull = (value: unknown): string | null => (value === null ? null : String(value));

function versionOf([row]: readonly Row[]): RowVersion | undefined {
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
    fits: Number(isFit) === 1,
    topic: textOrNull(topic) ?? '',
    key: readKey(key),
    type: textOrNull(type) ?? '',
    contentType: textOrNull(contentType) ?? '',
    headers: textOrNull(headers),
    options: textOrNull(options),
    payloadHash: textOrNull(payloadHash),
  };
}

function readKept([audit, id, actor, at, filter, kept, bytes, preview]: Row): KeptRow {
  return {
    audit: String(audit),
    id: String(id),
    actor: String(actor),
    at: readDate(at),
    filter: String(filter),
    kept: textOrNull(kept),
    payloadBytes: bytes === null ? null : Number(bytes),
    preview: preview as Buffer | null,
  };
}
