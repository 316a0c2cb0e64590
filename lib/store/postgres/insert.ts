import { createHash } from 'node:crypto';
import { OutboxError } from '../../outbox.errors.js';
import type { NewMessage } from '../../message.js';
import type { SqlExecutor } from '../executors/executor.js';
import type { InsertReport } from '../outbox-store.js';
import type { TableNames } from '../schema/names.js';
import { statement, type Statement } from '../sql.js';
import { plainArray, textArray } from './arrays.js';

const COLUMNS = 'transport, bucket, id, topic, key, type, version, content_type, headers, options, payload';
const PARAMETERS = 11;
const SCHEDULED_PARAMETERS = PARAMETERS + 2;
/** 65,535 is the protocol's limit; rows of both kinds fit 5,000 times. */
const CHUNK = 5_000;
/** Statement texts are kept for batches up to this size; larger ones are built anew. */
const KEPT = 128;
/** Statements up to this size are prepared: they save most, and a plan takes some 3 kB a row on every connection. */
const PREPARED = 16;
/** A dedup row may be cleaned between the conflict and the look at it; then the insert is tried again. */
const DEDUP_TRIES = 3;

/** Writes messages in the caller's transaction. */
export class PostgresInsert {
  /** @internal */ readonly kept = new Map<string, Statement>();
  /** @internal */ readonly claimKeys: Statement;
  /** @internal */ readonly holders: Statement;
  /** @internal */ readonly place: Statement;

  /** @internal Of the names of prepared statements: one connection may serve several outboxes. */
  readonly prefix: string | undefined;

  /** @param prepared whether statements may be prepared on the caller's connection */
  constructor(
    readonly names: TableNames,
    prepared = false,
  ) {
    const table = createHash('sha256').update(names.ready).digest('hex').slice(0, 12);
    this.prefix = prepared ? `outbox_insert_${table}` : undefined;
    this.claimKeys = statement(
      undefined,
      `insert into ${names.dedup} (dedup_key, id) select * from unnest(?::text[], ?::uuid[])
       on conflict (dedup_key) do nothing returning dedup_key`,
    );
    this.holders = statement(undefined, `select dedup_key, id from ${names.dedup} where dedup_key = any(?::text[])`);
    this.place = statement(
      undefined,
      `update ${names.dedup} d set transports = d.transports || k.t, buckets = d.buckets || k.b, seqs = d.seqs || k.s
       from (select k, array_agg(t) t, array_agg(b) b, array_agg(s) s
         from unnest(?::text[], ?::smallint[], ?::smallint[], ?::bigint[]) u(k, t, b, s) group by k) k
       where d.dedup_key = k.k`,
    );
  }

  async insert(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<InsertReport> {
    const duplicates = await this.findDuplicates(tx, messages);
    const fresh = duplicates.size === 0 ? messages : messages.filter((_, index) => !duplicates.has(index));
    for (let from = 0; from < fresh.length; from += CHUNK) {
      const chunk = fresh.length <= CHUNK ? fresh : fresh.slice(from, from + CHUNK);
      await this.insertChunk(tx, chunk);
    }
    return { duplicates };
  }

  /** @internal */ async insertChunk(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<void> {
    const ready = messages.filter((message) => !isScheduled(message));
    const scheduled = ready.length === messages.length ? [] : messages.filter(isScheduled);
    const places = [...(await this.insertRows(tx, ready, false)), ...(await this.insertRows(tx, scheduled, true))];
    if (places.length > 0) {
      const column = (index: number): (string | null)[] => places.map((row) => row[index] as string | null);
      await tx.run(
        this.place.bind(textArray(column(0)), plainArray(column(1)), plainArray(column(2)), plainArray(column(3))),
      );
    }
  }

  /** @internal Returns [dedupKey, transport, bucket, seq] of the rows that have a dedup key. */
  async insertRows(tx: SqlExecutor, rows: readonly NewMessage[], scheduled: boolean): Promise<unknown[][]> {
    if (rows.length === 0) return [];
    const keyed = rows.some((row) => row.dedupKey !== null);
    const { rows: written } = await tx.run(
      this.statementFor(rows.length, scheduled, keyed).bind(...values(rows, scheduled)),
    );
    if (!keyed) return [];
    const keys = new Map(rows.map((row) => [`${row.id} ${row.transport}`, row.dedupKey]));
    return written.flatMap(([id, transport, bucket, seq]) => {
      const key = keys.get(`${String(id)} ${String(transport)}`) ?? null;
      return key === null ? [] : [[key, transport, bucket, seq]];
    });
  }

  /** @internal */ statementFor(rows: number, scheduled: boolean, returning: boolean): Statement {
    const name = `${rows} ${scheduled} ${returning}`;
    let built = this.kept.get(name);
    if (built === undefined) {
      const row = scheduled
        ? `(${'?, '.repeat(PARAMETERS)}1, coalesce(?::timestamptz, clock_timestamp() + ?::float8 * interval '1 ms'))`
        : `(${'?, '.repeat(PARAMETERS - 1)}?)`;
      const target = scheduled
        ? `${this.names.parked} (${COLUMNS}, state, due_at)`
        : `${this.names.ready} (${COLUMNS})`;
      const all = new Array<string>(rows).fill(row).join(', ');
      const prepare = this.prefix !== undefined && rows <= PREPARED;
      built = statement(
        prepare ? `${this.prefix}_${rows}${scheduled ? '_later' : ''}${returning ? '_keyed' : ''}` : undefined,
        `insert into ${target} values ${all}${returning ? ' returning id, transport, bucket, seq' : ''}`,
      );
      if (rows <= KEPT) this.kept.set(name, built);
    }
    return built;
  }

  /**
   * Claims the dedup keys. Rows of one call that share key and id are one message on its way to several transports;
   * rows that share only the key are duplicates of the first.
   */
  /** @internal */ async findDuplicates(
    tx: SqlExecutor,
    messages: readonly NewMessage[],
  ): Promise<Map<number, string>> {
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

  /** @internal Returns the keys that somebody else holds, with the ids there. Sorted, so that two callers cannot deadlock. */
  async claim(tx: SqlExecutor, holders: ReadonlyMap<string, string>): Promise<Map<string, string>> {
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

function isScheduled({ delay, deliverAt }: NewMessage): boolean {
  return delay !== null || deliverAt !== null;
}

function values(rows: readonly NewMessage[], scheduled: boolean): unknown[] {
  const all = new Array<unknown>(rows.length * (scheduled ? SCHEDULED_PARAMETERS : PARAMETERS));
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
    if (scheduled) {
      all[i++] = row.deliverAt === null ? null : row.deliverAt.toISOString();
      all[i++] = row.delay;
    }
  }
  return all;
}
