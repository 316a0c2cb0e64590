import { createHash } from 'node:crypto';
import { OutboxError } from '../../../outbox.errors.js';
import { isScheduled, type NewMessage } from '../../../outbox-message.js';
import type { SqlExecutor } from '../../executor.js';
import type { InsertReport } from '../../outbox-store.js';
import type { TableNames } from '../../names.js';
import { Statement } from '../../sql.js';
import { plainArray, textArray } from '../arrays.js';

/** Not `seq`: the table gives it out with each row (`schema/tables`), and it is the order of a key. */
const COLUMNS = 'transport, bucket, id, topic, key, type, version, content_type, headers, options, payload';
const PARAMETERS = 11;
/** 65,535 is the protocol's limit; rows of both kinds fit 5,000 times. */
const CHUNK = 5_000;
/** Bytes of one statement, about: the server takes 1 GB, and both sides hold all of it several times. */
const CHUNK_BYTES = 8 * 1024 * 1024;
/** Statement texts are kept for batches up to this size; larger ones are built anew. */
const KEPT = 128;
/** Statements up to this size are prepared: they save most, and a plan takes some 3 kB a row on every connection. */
const PREPARED = 16;
/** A dedup row may be cleaned between the conflict and the look at it; then the insert is tried again. */
const DEDUP_TRIES = 3;

/** Which table a row is written to: of a strict order, keyed rows are staged, and move at COMMIT. */
type Target = 'ready' | 'staged' | 'parked';

/** Writes messages in the caller's transaction. */
export class PostgresInsert {
  private readonly kept = new Map<string, Statement>();
  private readonly claimKeys: Statement;
  private readonly holders: Statement;
  private readonly place: Statement;

  /** Of the names of prepared statements: one connection may serve several outboxes. */
  private readonly prefix: string | undefined;

  /** @param prepared whether statements may be prepared on the caller's connection */
  constructor(
    readonly names: TableNames,
    prepared = false,
    readonly strict = false,
  ) {
    const table = createHash('sha256').update(names.ready).digest('hex').slice(0, 12);
    this.prefix = prepared ? `outbox_insert_${table}` : undefined;
    const { claimKeys, holders, place } = dedupStatements(names);
    this.claimKeys = claimKeys;
    this.holders = holders;
    this.place = place;
  }

  async insert(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<InsertReport> {
    const duplicates = await this.findDuplicates(tx, messages);
    const fresh = duplicates.size === 0 ? messages : messages.filter((_, index) => !duplicates.has(index));
    for (const chunk of chunks(fresh)) await this.insertChunk(tx, chunk);
    return { duplicates };
  }

  private async insertChunk(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<void> {
    const places: unknown[][] = [];
    for (const target of this.strict ? STRICT_TARGETS : TARGETS) {
      const rows = messages.filter((message) => this.targetOf(message) === target);
      if (rows.length > 0) places.push(...(await this.insertRows(tx, rows, target)));
    }
    if (places.length > 0) {
      const column = (index: number): (string | null)[] => places.map((row) => row[index] as string | null);
      await tx.run(
        this.place.bind(textArray(column(0)), plainArray(column(1)), plainArray(column(2)), plainArray(column(3))),
      );
    }
  }

  private targetOf(message: NewMessage): Target {
    if (isScheduled(message)) return 'parked';
    return this.strict && message.key !== null ? 'staged' : 'ready';
  }

  /** Returns [dedupKey, transport, bucket, seq] of the rows that have a dedup key and, already, a place. */
  private async insertRows(tx: SqlExecutor, rows: readonly NewMessage[], target: Target): Promise<unknown[][]> {
    const keyed = rows.some((row) => row.dedupKey !== null);
    const { rows: written } = await tx.run(
      this.statementFor(rows.length, target, keyed).bind(...values(rows, target, keyed)),
    );
    if (!keyed || target === 'staged') return [];
    const keys = new Map(rows.map((row) => [`${row.id} ${row.transport}`, row.dedupKey]));
    return written.flatMap(([id, transport, bucket, seq]) => {
      const key = keys.get(`${String(id)} ${String(transport)}`) ?? null;
      return key === null ? [] : [[key, transport, bucket, seq]];
    });
  }

  private statementFor(rows: number, target: Target, keyed: boolean): Statement {
    const name = `${rows} ${target} ${keyed}`;
    let built = this.kept.get(name);
    if (built === undefined) {
      const { columns, row } = SHAPES[target](keyed);
      const all = Array.from({ length: rows }, (_, index) => row(index === 0)).join(', ');
      const prepare = this.prefix !== undefined && rows <= PREPARED;
      built = new Statement(
        prepare ? `${this.prefix}_${rows}${SUFFIXES[target]}${keyed ? '_keyed' : ''}` : undefined,
        `insert into ${this.names[target]} (${columns}) values ${all}${keyed && target !== 'staged' ? ' returning id, transport, bucket, seq' : ''}`,
      );
      if (rows <= KEPT) this.kept.set(name, built);
    }
    return built;
  }

  /**
   * Claims the dedup keys. Rows of one call that share key and id are one message on its way to several transports;
   * rows that share only the key are duplicates of the first.
   */
  private async findDuplicates(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<Map<number, string>> {
    const duplicates = new Map<number, string>();
    const holders = new Map<string, string>();
    for (const { dedupKey, id } of messages) {
      if (dedupKey !== null && !holders.has(dedupKey)) holders.set(dedupKey, id);
    }
    if (holders.size === 0) return duplicates;
    const foreign = await this.claim(tx, holders);
    messages.forEach(({ dedupKey, id }, index) => {
      if (dedupKey === null) return;
      const holder = foreign.get(dedupKey) ?? (holders.get(dedupKey) as string);
      if (foreign.has(dedupKey) || holder !== id) duplicates.set(index, holder);
    });
    return duplicates;
  }

  /** Returns the keys that somebody else holds, with the ids there. Sorted, so that two callers cannot deadlock. */
  private async claim(tx: SqlExecutor, holders: ReadonlyMap<string, string>): Promise<Map<string, string>> {
    const foreign = new Map<string, string>();
    let open = [...holders.keys()].sort();
    for (let attempt = 0; attempt < DEDUP_TRIES; attempt++) {
      const ids = open.map((key) => holders.get(key) as string);
      const claimed = new Set(
        (await tx.run(this.claimKeys.bind(textArray(open), plainArray(ids)))).rows.map(([key]) => key),
      );
      open = open.filter((key) => !claimed.has(key));
      if (open.length === 0) return foreign;
      for (const [key, id] of (await tx.run(this.holders.bind(textArray(open)))).rows) {
        foreign.set(key as string, id as string);
      }
      open = open.filter((key) => !foreign.has(key));
      if (open.length === 0) return foreign;
    }
    throw new OutboxError('STORE_UNAVAILABLE', 'A dedup key is claimed and freed by others all the time.');
  }
}

/**
 * On the caller's connection, whose search_path may be anything: functions, types and operators are PostgreSQL's own. So they
 * are in the rows of {@link SHAPES}. `unnest` of several arrays is grammar, and never another one.
 */
function dedupStatements({ dedup }: TableNames): Record<'claimKeys' | 'holders' | 'place', Statement> {
  const isText = '?::pg_catalog.text[]';
  const appended = (column: string, more: string): string =>
    `${column} = d.${column} operator(pg_catalog.||) k.${more}`;
  return {
    claimKeys: new Statement(
      undefined,
      `insert into ${dedup} (dedup_key, id) select * from unnest(${isText}, ?::pg_catalog.uuid[])
       on conflict (dedup_key) do nothing returning dedup_key`,
    ),
    holders: new Statement(
      undefined,
      `select dedup_key, id from ${dedup} where dedup_key operator(pg_catalog.=) any(${isText})`,
    ),
    place: new Statement(
      undefined,
      `update ${dedup} d set ${appended('transports', 't')}, ${appended('buckets', 'b')}, ${appended('seqs', 's')}
       from (select k, pg_catalog.array_agg(t) t, pg_catalog.array_agg(b) b, pg_catalog.array_agg(s) s
         from unnest(${isText}, ?::smallint[], ?::smallint[], ?::bigint[]) u(k, t, b, s) group by k) k
       where d.dedup_key operator(pg_catalog.=) k.k`,
    ),
  };
}

const TARGETS = ['ready', 'parked'] as const;
const STRICT_TARGETS = ['staged', ...TARGETS] as const;
const SUFFIXES: Readonly<Record<Target, string>> = { ready: '', staged: '_staged', parked: '_later' };
const MARKS = `${'?, '.repeat(PARAMETERS - 1)}?`;
/** Columns and row of an INSERT; whether it is the first row, and whether rows have dedup keys, matters to staged ones. */
const SHAPES: Readonly<Record<Target, (keyed: boolean) => { columns: string; row: (first: boolean) => string }>> = {
  ready: () => ({ columns: COLUMNS, row: () => `(${MARKS})` }),
  staged: (keyed) => ({
    columns: `${COLUMNS}, leads${keyed ? ', dedup_key' : ''}`,
    row: (first) => `(${MARKS}, ${first}${keyed ? ', ?' : ''})`,
  }),
  parked: () => ({
    columns: `${COLUMNS}, state, due_at`,
    row: () =>
      `(${MARKS}, 1, coalesce(?::pg_catalog.timestamptz, pg_catalog.clock_timestamp() operator(pg_catalog.+) (?::pg_catalog.float8 operator(pg_catalog.*) interval '1 ms')))`,
  }),
};

/** Under {@link CHUNK} rows and {@link CHUNK_BYTES}; a message that is larger is alone. */
function chunks(rows: readonly NewMessage[]): readonly (readonly NewMessage[])[] {
  if (rows.length <= 1) return rows.length === 0 ? [] : [rows];
  const all: NewMessage[][] = [];
  let chunk: NewMessage[] = [];
  let size = 0;
  for (const row of rows) {
    const bytes = (row.payload?.byteLength ?? 0) + (row.headers?.length ?? 0) + (row.options?.length ?? 0);
    if (chunk.length === 0 || chunk.length === CHUNK || size + bytes > CHUNK_BYTES) {
      chunk = [];
      size = 0;
      all.push(chunk);
    }
    chunk.push(row);
    size += bytes;
  }
  return all;
}

function values(rows: readonly NewMessage[], target: Target, keyed: boolean): unknown[] {
  const more = { ready: 0, staged: keyed ? 1 : 0, parked: 2 }[target];
  const all = new Array<unknown>(rows.length * (PARAMETERS + more));
  let i = 0;
  for (const row of rows) {
    all[i++] = row.transport;
    all[i++] = row.bucket;
    all[i++] = row.id;
    all[i++] = row.topic;
    all[i++] = row.key;
    all[i++] = row.type;
    all[i++] = row.version;
    all[i++] = row.contentType;
    all[i++] = row.headers;
    all[i++] = row.options;
    all[i++] = row.payload;
    if (target === 'staged' && keyed) all[i++] = row.dedupKey;
    if (target === 'parked') {
      all[i++] = row.deliverAt === null ? null : row.deliverAt.toISOString();
      all[i++] = row.delay;
    }
  }
  return all;
}
