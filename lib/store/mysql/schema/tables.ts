import type { SchemaDefinition, TableName } from '../../names.js';

/** name, type, rest of the definition. Read by the DDL and by the check at start. */
export type MysqlColumn = readonly [name: string, type: string, definition: string];
export interface MysqlTable {
  readonly columns: readonly MysqlColumn[];
  /** name of the index → what it is made of; `primary` is the primary key, a `!` before the name makes it unique. */
  readonly keys: Readonly<Record<string, readonly string[]>>;
  /** name of the constraint → what holds for each row */
  readonly checks?: Readonly<Record<string, string>>;
}

const ASCII = 'character set ascii collate ascii_bin';
/** UTC whatever the session's time zone is. */
const NOW = '(utc_timestamp(6))';

/** A UUIDv7 for foreign writers: milliseconds, then random digits out of a hash of a fresh UUID. */
const UUID_V7 = `(lower(concat(
    insert(lpad(hex(cast(unix_timestamp(current_timestamp(3)) * 1000 as unsigned)), 12, '0'), 9, 0, '-'),
    '-7', left(sha2(uuid(), 256), 3),
    '-', substr('89ab', 1 + (conv(left(sha2(uuid(), 256), 2), 16, 10) & 3), 1), left(sha2(uuid(), 256), 3),
    '-', left(sha2(uuid(), 256), 12))))`;

/** The SQL twin of `bucketOf`: uint16be(sha256(utf8(text))) mod buckets. `global` has everything in bucket 0. */
export function bucketSql(text: string, { buckets, ordering }: Pick<SchemaDefinition, 'buckets' | 'ordering'>): string {
  return ordering === 'global' ? '0' : `(conv(left(sha2(${text}, 256), 4), 16, 10) % ${buckets})`;
}

/** `id` and `key` stand before `bucket`, because its default reads them. `key` is bytes: text would ignore trailing spaces. */
function message(definition: SchemaDefinition, seq: string): MysqlColumn[] {
  return [
    ['transport', 'smallint', 'not null default 0'],
    ['id', 'char(36)', `${ASCII} not null default ${UUID_V7}`],
    ['topic', 'varchar(255)', 'not null'],
    ['key', 'varbinary(255)', 'null'],
    ['bucket', 'smallint', `not null default (${bucketSql('coalesce(`key`, id)', definition)})`],
    ['seq', 'bigint unsigned', `not null ${seq}`],
    ['type', 'varchar(255)', 'not null default (topic)'],
    ['version', 'smallint', 'not null default 1'],
    ['content_type', 'varchar(255)', `not null default 'application/json'`],
    ['headers', 'mediumtext', 'null'],
    ['options', 'text', 'null'],
    ['payload', 'longblob', 'null'],
    ['created_at', 'datetime(6)', `not null default ${NOW}`],
  ];
}

export function mysqlTables(definition: SchemaDefinition): Readonly<Record<TableName, MysqlTable>> {
  return {
    ready: {
      columns: message(definition, 'auto_increment'),
      keys: { primary: ['transport', 'bucket', 'seq'], '!by_seq': ['seq'] }, // InnoDB wants auto-increment first in a key
      checks: limits('ready', definition),
    },
    parked: parkedTable(definition),
    archive: {
      columns: [
        ['archive_id', 'bigint unsigned', 'not null auto_increment'],
        ...message(definition, ''),
        ['attempts', 'int', 'not null default 0'],
        ['published_at', 'datetime(6)', `not null default ${NOW}`],
      ],
      keys: { primary: ['archive_id'], by_time: ['published_at'] },
    },
    dedup: DEDUP,
    audit: AUDIT,
    pauses: PAUSES,
    ...coordinationTables(),
  };
}

/** Others may write rows: one with another bucket lies where nobody looks for it. */
function limits(table: 'ready' | 'parked', { prefix, buckets }: SchemaDefinition): Readonly<Record<string, string>> {
  return { [`${prefix}${table}_limits`]: `bucket between 0 and ${buckets - 1}` };
}

function parkedTable(definition: SchemaDefinition): MysqlTable {
  return {
    columns: [
      ['parked_id', 'bigint unsigned', 'not null auto_increment'],
      ...message(definition, 'default 0'), // 0: scheduled at the enqueue; it sorts before what is blocked behind it
      ['state', 'tinyint', 'not null default 1 check (state between 1 and 4)'], // scheduled, waiting, blocked, dead
      ['blocking', 'tinyint', 'not null default 0'], // later messages of its key wait for this row
      ['attempts', 'int', 'not null default 0'],
      ['due_at', 'datetime(6)', 'null'],
      ['attempted_at', 'datetime(6)', 'null'], // the last attempt that failed
      ['last_error', 'text', 'null'],
      ['errors', 'mediumtext', 'null'], // the last ones, as a JSON array, where `retry.errorHistory` asks for them
      ['progress', 'mediumtext', 'null'], // what the transport left at its last failure
      ['sending_epoch', 'bigint unsigned', 'null'], // being sent while this is the lease's epoch and the lease lasts
      ['parked_at', 'datetime(6)', `not null default ${NOW}`],
      ['died_at', 'datetime(6)', 'null'],
      ['announced', 'tinyint', 'not null default 0'], // its death was told
    ],
    keys: {
      primary: ['parked_id'],
      by_id: ['id', 'transport'], // not unique: copies of a message, as of two replays, wait side by side
      due: ['transport', 'bucket', 'due_at', 'seq'],
      by_key: ['transport', 'bucket', 'blocking', 'key', 'seq', 'parked_id'],
      by_state: ['transport', 'state', 'announced', 'died_at'],
    },
    checks: limits('parked', definition),
  };
}

const DEDUP: MysqlTable = {
  columns: [
    ['dedup_key', 'varbinary(255)', 'not null'],
    ['id', 'char(36)', `${ASCII} not null`],
    ['bucket', 'smallint', 'not null'], // where to look whether it is settled; the same for each transport
    ['claim', 'binary(16)', 'not null'], // of the call that wrote the row: tells "I was first" from "it was there"
    ['created_at', 'datetime(6)', `not null default ${NOW}`],
  ],
  keys: { primary: ['dedup_key'], by_time: ['created_at'], by_id: ['id'] },
};

/** A row for each action of an operator. */
const AUDIT: MysqlTable = {
  columns: [
    ['audit_id', 'bigint unsigned', 'not null auto_increment'],
    ['action', 'varchar(32)', 'not null'],
    ['actor', 'varchar(255)', 'not null'],
    ['filter', 'text', 'not null'], // JSON
    ['begun_at', 'datetime(6)', `not null default ${NOW}`],
    ['touched_at', 'datetime(6)', `not null default ${NOW}`],
    ['ended_at', 'datetime(6)', 'null'],
    ['done', 'bigint unsigned', 'not null default 0'],
    ['skipped', 'bigint unsigned', 'not null default 0'],
    ['outcome', 'varchar(32)', 'null'], // null while it runs, and of one whose process is gone
    ['error', 'text', 'null'],
    // Of an edit: what the message was before it. Whoever lists the audit reads neither.
    ['message_id', 'char(36)', `${ASCII} null`],
    ['kept', 'mediumtext', 'null'], // JSON; null: purged
    ['kept_payload', 'longblob', 'null'], // as it was stored: ciphertext stays ciphertext
  ],
  keys: { primary: ['audit_id'], by_time: ['begun_at'], by_message: ['message_id', 'audit_id'] },
};

/** What is paused; an empty topic or key stands for all of them. */
const PAUSES: MysqlTable = {
  columns: [
    ['transport', 'smallint', 'not null'],
    ['topic', 'varbinary(1020)', 'not null'], // 255 characters, compared as bytes: a collation takes spaces at the end for none
    ['key', 'varbinary(255)', 'not null'],
    ['since', 'datetime(6)', `not null default ${NOW}`],
    ['actor', 'varchar(255)', 'not null'],
    ['reason', 'varchar(1000)', 'not null'],
  ],
  keys: { primary: ['transport', 'topic', 'key'] },
};

const LEASES: MysqlTable = {
  columns: [
    ['transport', 'smallint', 'not null'],
    ['bucket', 'smallint', 'not null'],
    ['owner', 'varchar(64)', `${ASCII} null`],
    ['epoch', 'bigint unsigned', 'not null default 0'],
    ['expires_at', 'datetime(6)', `not null default '1970-01-01 00:00:00'`],
    ['crashes', 'int', 'not null default 0'], // leases in a row that ran out
    ['trial', 'char(36)', `${ASCII} null`], // what its owner publishes by itself, after too many of them
  ],
  keys: { primary: ['transport', 'bucket'], by_owner: ['owner'] },
};

function coordinationTables() {
  return {
    leases: LEASES,
    instances: {
      columns: [
        ['owner', 'varchar(64)', `${ASCII} not null`],
        ['transports', 'text', 'not null'], // JSON array of numbers
        ['info', 'text', 'not null'],
        ['started_at', 'datetime(6)', `not null default ${NOW}`],
        ['expires_at', 'datetime(6)', 'not null'],
      ],
      keys: { primary: ['owner'] },
    },
    meta: {
      columns: [
        ['name', 'varchar(100)', `${ASCII} not null`],
        ['value', 'varchar(255)', 'not null'],
      ],
      keys: { primary: ['name'] },
    },
    transports: {
      columns: [
        ['id', 'smallint', 'not null'],
        ['name', 'varbinary(255)', 'not null'],
      ],
      keys: { primary: ['id'], '!by_name': ['name'] },
    },
  } as const satisfies Partial<Record<TableName, MysqlTable>>;
}
