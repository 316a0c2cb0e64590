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
import type { SqlConnection, SqlExecutor, SqlResult } from '../../executor.js';
import { fits, LIMITED_COLUMNS } from '../../limits.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { Sql } from '../../sql.js';
import { readPayload, stateName } from '../columns.js';
import { readDate, utc } from '../inspect/rows.js';
import { beingSent } from '../parked/settle.js';
import { inTransaction } from '../retry.js';
import { statement } from '../statement.js';
import type { PostgresAdmin } from './admin.js';
import type { PostgresAudit } from './audit.js';

const COLUMNS: Readonly<Record<keyof EditableContent, string>> = {
  topic: 'topic',
  type: 'type',
  contentType: 'content_type',
  headers: 'headers',
  options: 'options',
  payload: 'payload',
};

/** One message that waits is corrected. It guards what {@link PostgresAdmin} changes, in the same way. */
export class PostgresEdit implements EditStore {
  /** @internal */ readonly sql: ReturnType<typeof statements>;

  constructor(
    readonly connection: () => SqlConnection,
    readonly names: TableNames,
    settings: StoreSettings,
    readonly parts: { readonly admin: PostgresAdmin; readonly audits: PostgresAudit },
  ) {
    this.sql = statements(names, settings);
  }

  async places(id: string): Promise<ParkedPlace[]> {
    const { rows } = await this.connection().run(this.sql.places.bind(id));
    return rows.map(([rowId, transport, state]) => ({
      rowId: rowId as string,
      transport: Number(transport),
      state: stateName(state),
    }));
  }

  async version(rowId: string): Promise<RowVersion | undefined> {
    return versionOf(await this.connection().run(this.sql.version.bind(rowId)));
  }

  async read(rowId: string): Promise<EditableRow | undefined> {
    const result = await this.connection().run(this.sql.read.bind(rowId));
    const version = versionOf(result);
    if (version === undefined) return undefined;
    return { ...version, payload: readPayload(result.rows[0]?.at(-1) as string | null, 'bytes') as Buffer | null };
  }

  edit(request: EditRequest): Promise<EditOutcome> {
    return inTransaction(this.connection(), (tx) => this.editIn(tx, request));
  }

  async kept({ id, before, limit, previewBytes }: KeptRequest): Promise<KeptRow[]> {
    const { rows } = await this.parts.audits.run(
      this.sql.kept.bind(previewBytes, id ?? null, id ?? null, before, before, limit),
    );
    return rows.map(readKept);
  }

  /** @internal Leases first, then the row: it is looked at by statements that begin when nobody can take it any more. */
  async editIn(
    tx: SqlExecutor,
    { rowId, revision, changes, requeue, actor, filter }: EditRequest,
  ): Promise<EditOutcome> {
    await tx.run(this.sql.lockLease.bind(rowId));
    const [locked] = (await tx.run(this.sql.lockRow.bind(rowId))).rows;
    const [seen] = (await tx.run(this.sql.place.bind(rowId))).rows;
    if (seen === undefined) return { outcome: 'changed' };
    const [transport, bucket, isSent] = seen;
    if (locked === undefined || isSent === 't') return { outcome: 'sending' };
    const before = versionOf(await tx.run(this.sql.version.bind(rowId)));
    if (before === undefined || revisionOf(before) !== revision) return { outcome: 'changed' };
    const kept = this.sql.keep.bind(actor, filter, keptText(before), rowId);
    const audit = (await tx.run(kept)).rows[0]?.[0] as string;
    await tx.run(this.update(rowId, changes, isFreed(before, changes)));
    if (requeue) await this.requeueIn(tx, [rowId, transport, bucket], before);
    const after = versionOf(await tx.run(this.sql.version.bind(rowId))) as RowVersion;
    return { outcome: 'edited', audit, revision: revisionOf(after) };
  }

  /** @internal */ requeueIn(tx: SqlExecutor, found: readonly unknown[], { state }: RowVersion): Promise<unknown> {
    return this.parts.admin.changeIn(tx, 'requeue', [state], [found]);
  }

  /** @internal */ update(rowId: string, changes: Partial<EditableContent>, isDue: boolean): Sql {
    const given = (Object.keys(COLUMNS) as (keyof EditableContent)[]).filter((name) => changes[name] !== undefined);
    const set = given.map((name) => `${COLUMNS[name]} = ?::${name === 'payload' ? 'bytea' : 'text'}`).join(', ');
    const due = isDue ? ', due_at = now()' : '';
    return statement(undefined, `update ${this.names.parked} set ${set}${due} where parked_id = ?::bigint`).bind(
      ...given.map((name) => changes[name]),
      rowId,
    );
  }
}

function statements({ parked, leases, audit }: TableNames, { coordination }: StoreSettings) {
  const byId = `from ${parked} o where o.parked_id = ?::bigint`;
  const isFit = `(${fits(LIMITED_COLUMNS, 'o.')}) is not false`;
  const text = (column: string): string => `case when ${isFit} then ${column} end`;
  const texts = ['o.topic', 'o.key', 'o.type', 'o.content_type', 'o.headers', 'o.options'].map(text).join(', ');
  const version = `o.parked_id, o.transport, o.state, o.id, o.version, o.attempts, ${isFit}, ${texts}, ${text(`encode(sha256(o.payload), 'hex')`)}`;
  // With row locks one that is being published is locked for as long as that takes: nobody waits.
  const skip = coordination === 'rowLock' ? ' skip locked' : '';
  return {
    places: statement(
      undefined,
      `select o.parked_id, o.transport, o.state from ${parked} o where o.id = ?::uuid order by o.transport, o.seq`,
    ),
    version: statement(undefined, `select ${version} ${byId}`),
    read: statement(undefined, `select ${version}, ${text('o.payload')} ${byId}`),
    lockLease: statement(
      undefined,
      `select l.transport from ${leases} l where (l.transport, l.bucket) in (select o.transport, o.bucket ${byId}) for share`,
    ),
    lockRow: statement(undefined, `select o.parked_id ${byId} for update${skip}`),
    place: statement(undefined, `select o.transport, o.bucket, ${beingSent(leases)} ${byId}`),
    /** The payload does not leave the server. */
    keep: statement(
      undefined,
      `insert into ${audit} (action, actor, filter, done, outcome, ended_at, message_id, kept, kept_payload)
       select 'edit', ?, ?, 1, 'done', clock_timestamp(), o.id, ?, o.payload ${byId} returning audit_id`,
    ),
    kept: statement(
      undefined,
      `select audit_id, message_id, actor, ${utc('begun_at')}, filter, kept, octet_length(kept_payload),
         encode(substring(kept_payload from 1 for ?::int), 'hex')
       from ${audit} where message_id is not null and (?::uuid is null or message_id = ?::uuid)
         and (?::bigint is null or audit_id < ?::bigint) order by audit_id desc limit ?`,
    ),
  };
}

function versionOf({ rows }: SqlResult): RowVersion | undefined {
  const [row] = rows;
  if (row === undefined) return undefined;
  const [rowId, transport, state, id, version, attempts, isFit, ...content] = row;
  const [topic, key, type, contentType, headers, options, payloadHash] = content as (string | null)[];
  return {
    rowId: rowId as string,
    transport: Number(transport),
    state: stateName(state),
    id: id as string,
    version: Number(version),
    attempts: Number(attempts),
    fits: isFit === 't',
    topic: topic ?? '',
    key: key ?? null,
    type: type ?? '',
    contentType: contentType ?? '',
    headers: headers ?? null,
    options: options ?? null,
    payloadHash: payloadHash ?? null,
  };
}

function readKept([audit, id, actor, at, filter, kept, bytes, preview]: readonly unknown[]): KeptRow {
  return {
    audit: audit as string,
    id: id as string,
    actor: actor as string,
    at: readDate(at),
    filter: filter as string,
    kept: kept as string | null,
    payloadBytes: bytes === null ? null : Number(bytes),
    preview: preview === null ? null : Buffer.from(preview as string, 'hex'),
  };
}
