import { randomBytes } from 'node:crypto';
import { keyBytes } from '../../../message/key-bytes.js';
import { OutboxMessageError, OutboxTransactionConflictError } from '../../../outbox.errors.js';
import { isScheduled, type NewMessage } from '../../../outbox-message.js';
import type { SqlExecutor } from '../../executor.js';
import type { InsertReport, MessageWriter } from '../../outbox-store.js';
import type { TableNames } from '../../names.js';
import { statement, type Sql } from '../../sql.js';
import { SCHEDULED } from '../../parked-state.js';
import { MysqlKeyLocks } from './key-locks.js';
import { DEADLOCK, errnoOf } from '../../retry.js';
import { SNAPSHOT_TOO_OLD } from '../errors.js';
import { marks, sized, times } from '../statements.js';

const COLUMNS = 'transport, bucket, id, topic, `key`, type, version, content_type, headers, options, payload';
const PARAMETERS = 11;
/** 65,535 parameters is the protocol's limit; texts stay cached and small below this. */
const ROWS = 1_000;
/** Bytes of one statement: below the smallest max_allowed_packet that servers come with (1 MiB). */
const CHUNK_BYTES = 768 * 1024;
/** A century: beyond it `datetime` overflows for large delays. */
const LONGEST_DELAY = 100 * 365.25 * 86_400_000;
const LAST_INSTANT = Date.UTC(9999, 11, 31);

/** Writes messages in the caller's transaction, on a connection whose charset, sql_mode and isolation are the caller's. */
export class MysqlInsert implements MessageWriter {
  private readonly sql: ReturnType<typeof insertStatements>;

  private readonly keyLocks: MysqlKeyLocks | undefined;

  constructor(names: TableNames, strict = false) {
    this.sql = insertStatements(names);
    this.keyLocks = strict ? new MysqlKeyLocks(names) : undefined;
  }

  /** More than one statement, of which InnoDB undoes only the one that failed. The locks of keys are no part of the messages. */
  mayLeavePart(messages: readonly NewMessage[]): boolean {
    const [first] = messages;
    if (messages.some(({ dedupKey }) => dedupKey !== null)) return true;
    if (messages.length === 1) return estimate(first as NewMessage) > CHUNK_BYTES; // its size is asked about first
    return (
      messages.some((message) => isScheduled(message) !== isScheduled(first as NewMessage)) ||
      chunks(messages).length > 1
    );
  }

  async insert(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<InsertReport> {
    await refuseTooLarge(tx, messages);
    const duplicates = await this.findDuplicates(tx, messages);
    const fresh = duplicates.size === 0 ? messages : messages.filter((_, index) => !duplicates.has(index));
    const ready = fresh.filter((message) => !isScheduled(message));
    const scheduled = ready.length === fresh.length ? [] : fresh.filter(isScheduled);
    await this.keyLocks?.take(tx, ready); // before the first number is drawn
    for (const rows of chunks(ready)) await write(tx, this.sql.ready(rows.length).bind(...rows.flatMap(common)));
    for (const rows of chunks(scheduled)) {
      await write(tx, this.sql.parked(rows.length).bind(...rows.flatMap((row) => [...common(row), ...time(row)])));
    }
    return { duplicates };
  }

  /**
   * Claims the dedup keys, sorted so that two callers cannot deadlock. A key that exists stays as it is: no error, so
   * the transaction goes on. The random `claim` tells this call's rows from older ones, also when the ids are equal.
   * Rows of one call that share key and id are one message on its way to several transports.
   */
  private async findDuplicates(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<Map<number, string>> {
    const duplicates = new Map<number, string>();
    const first = new Map<string, NewMessage>();
    for (const message of messages) {
      if (message.dedupKey !== null && !first.has(message.dedupKey)) first.set(message.dedupKey, message);
    }
    if (first.size === 0) return duplicates;
    const claim = randomBytes(16);
    const holders = new Map<string, { id: string; ours: boolean }>();
    const keys = [...first.keys()].sort();
    for (let from = 0; from < keys.length; from += ROWS) {
      for (const [key, holder] of await this.claim(tx, claim, first, keys.slice(from, from + ROWS)))
        holders.set(key, holder);
    }
    messages.forEach(({ dedupKey, id }, index) => {
      const holder = dedupKey === null ? undefined : holders.get(dedupKey);
      if (holder !== undefined && !(holder.ours && holder.id === id)) duplicates.set(index, holder.id);
    });
    return duplicates;
  }

  private async claim(
    tx: SqlExecutor,
    claim: Buffer,
    first: ReadonlyMap<string, NewMessage>,
    keys: readonly string[],
  ): Promise<[string, { id: string; ours: boolean }][]> {
    const bytes = keys.map((key) => Buffer.from(key, 'utf8'));
    const rows = keys.flatMap((key, i) => {
      const { id, bucket } = first.get(key) as NewMessage;
      return [bytes[i], id, bucket, claim];
    });
    await tx.run(this.sql.claim(keys.length).bind(...rows)).catch(conflict);
    const held = await tx.run(this.sql.holders(keys.length).bind(...bytes)).catch(conflict);
    const ours = claim.toString('hex').toUpperCase();
    return held.rows.map(([key, id, by]) => [
      Buffer.from(String(key), 'hex').toString('utf8'),
      { id: String(id), ours: String(by).toUpperCase() === ours },
    ]);
  }
}

function insertStatements({ ready, parked, dedup }: TableNames) {
  const row = `(${marks(PARAMETERS)})`;
  // Text or the server's clock, then the delay; `cast` keeps the microseconds of both.
  const due = 'timestampadd(microsecond, ?, cast(coalesce(?, utc_timestamp(6)) as datetime(6)))';
  const parkedRow = `(${marks(PARAMETERS)}, ${SCHEDULED}, ${due})`;
  return {
    ready: sized((n) => `insert into ${ready} (${COLUMNS}) values ${times(n, row, ', ')}`),
    parked: sized((n) => `insert into ${parked} (${COLUMNS}, state, due_at) values ${times(n, parkedRow, ', ')}`),
    // Not `insert ignore`, which would also swallow values that do not fit.
    claim: sized(
      (n) => `insert into ${dedup} (dedup_key, id, bucket, claim) values ${times(n, '(?, ?, ?, ?)', ', ')}
      on duplicate key update claim = claim`,
    ),
    // A locking read sees what is there now, also under REPEATABLE READ; the insert above holds these locks already. Its own
    // limit: the session's sql_select_limit may be lower, and a holder that is not seen lets its message be written twice.
    holders: sized(
      (n) =>
        `select hex(dedup_key), id, hex(claim) from ${dedup} force index (primary) where dedup_key in (${marks(n)}) limit ${n} for update`,
    ),
  };
}

const MAX_PACKET = statement(undefined, 'select @@session.max_allowed_packet');

/** An INSERT waits for whoever has locked the gap in which its rows come: on MySQL, who went back to a savepoint. */
async function write(tx: SqlExecutor, sql: Sql): Promise<void> {
  await tx.run(sql).catch((error: unknown) => {
    if (errnoOf(error) !== DEADLOCK) throw error;
    throw new OutboxTransactionConflictError(
      'Transactions wait for the place of each other’s messages; the database ended this one.',
      { hint: 'Run the whole transaction again.', cause: error },
    );
  });
}

/** The server has ended the transaction. */
function conflict(error: unknown): never {
  const errno = errnoOf(error);
  if (errno !== DEADLOCK && errno !== SNAPSHOT_TOO_OLD) throw error;
  throw new OutboxTransactionConflictError(
    errno === DEADLOCK
      ? 'Transactions wait for a dedup key of each other; the database ended this one.'
      : 'Another transaction claimed the dedup key since the snapshot of this one; the database ended this one.',
    { hint: 'Run the whole transaction again.', cause: error },
  );
}

function common(row: NewMessage): unknown[] {
  return [
    row.transport,
    row.bucket,
    row.id,
    text(row.topic),
    row.key === null ? null : keyBytes(row.key), // a replay has what another program wrote
    text(row.type),
    row.version,
    text(row.contentType),
    text(row.headers),
    text(row.options),
    bytes(row.payload),
  ];
}

/** Microseconds of delay, and the instant as text in UTC or null. */
function time({ delay, deliverAt }: NewMessage): unknown[] {
  const instant = deliverAt === null ? null : new Date(Math.min(deliverAt.getTime(), LAST_INSTANT)).toISOString();
  return [
    Math.round(Math.min(Math.max(delay ?? 0, 0), LONGEST_DELAY) * 1000),
    instant === null ? null : instant.slice(0, 23).replace('T', ' '),
  ];
}

/** Literals that read the same under every charset and sql_mode; anything else goes as bytes (`X'…'`). */
const PLAIN = /^[\w .,:;/+@#$%&()=<>-]*$/;
function text(value: string | null): unknown {
  return value === null || PLAIN.test(value) ? value : Buffer.from(value, 'utf8');
}
function bytes(value: Uint8Array | null): Buffer | null {
  if (value === null || Buffer.isBuffer(value)) return value;
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
}

/** Batches under {@link ROWS} rows and {@link CHUNK_BYTES}; a message that is larger is alone. */
function chunks(rows: readonly NewMessage[]): NewMessage[][] {
  const all: NewMessage[][] = [];
  let size = Infinity;
  for (const row of rows) {
    const bytesOfRow = estimate(row);
    if (size + bytesOfRow > CHUNK_BYTES || (all.at(-1)?.length ?? 0) >= ROWS) {
      all.push([]);
      size = 0;
    }
    all.at(-1)?.push(row);
    size += bytesOfRow;
  }
  return all;
}

/** Bytes as hexadecimal digits take twice their size. */
function estimate({ topic, key, type, contentType, headers, options, payload }: NewMessage): number {
  const texts =
    topic.length +
    type.length +
    contentType.length +
    (key?.length ?? 0) +
    (headers?.length ?? 0) +
    (options?.length ?? 0);
  return 200 + 6 * texts + 2 * (payload?.byteLength ?? 0);
}

/** A message that is a statement of its own must fit the server's packet. */
async function refuseTooLarge(tx: SqlExecutor, messages: readonly NewMessage[]): Promise<void> {
  const large = messages.filter((message) => estimate(message) > CHUNK_BYTES);
  if (large.length === 0) return;
  const packet = Number((await tx.run(MAX_PACKET.bind())).rows[0]?.[0]);
  const first = large.find((message) => estimate(message) > packet);
  if (first === undefined) return;
  throw new OutboxMessageError(
    'PAYLOAD_TOO_LARGE',
    `Message ${first.id} has ${first.payload?.byteLength ?? 0} bytes of payload; the server takes statements of ${packet} bytes.`,
    {
      hint: 'Raise max_allowed_packet (a payload needs twice its size), or store large content elsewhere and send its address.',
    },
  );
}
