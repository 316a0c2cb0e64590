import type { SchemaDefinition, TableNames } from '../../names.js';
import { createFunction } from './function.js';

/** What the view shows, and of which type. */
export const VIEW_COLUMNS: Readonly<Record<string, string>> = {
  id: 'uuid',
  state: 'text',
  transport: 'text',
  topic: 'text',
  key: 'text',
  type: 'text',
  version: 'smallint',
  content_type: 'text',
  headers: 'text',
  options: 'text',
  payload: 'text',
  payload_bytes: 'bytea',
  created_at: 'timestamp with time zone',
  due_at: 'timestamp with time zone',
  attempts: 'integer',
  last_error: 'text',
  published_at: 'timestamp with time zone',
  bucket: 'smallint',
  seq: 'bigint',
  last_attempt_at: 'timestamp with time zone',
  errors: 'text',
};

/**
 * The one outbox that people expect to SELECT from and INSERT into: a view over ready, parked and archive. Other
 * programs insert through it, because a trigger on the hot table would cost every insert 1.1 µs.
 */
export function messagesView(names: TableNames, definition: SchemaDefinition): string[] {
  return [
    ...viewFunctions(definition),
    viewOf(names),
    `drop trigger if exists ${names.index('messages_insert')} on ${names.messages}`,
    `create trigger ${names.index('messages_insert')} instead of insert on ${names.messages} ` +
      `for each row execute function ${names.object('messages_insert')}()`,
  ];
}

export const viewOf = (names: TableNames): string => `create or replace view ${names.messages} as\n${select(names)}`;

export function viewFunctions(definition: SchemaDefinition): string[] {
  return [
    createFunction(definition, 'payload_text', () => PAYLOAD_TEXT),
    createFunction(definition, 'messages_insert', (names) => insertBody(names, definition)),
  ];
}

/** Never fails, whatever the bytes: one binary payload must not hide all rows. */
const PAYLOAD_TEXT = `
begin
  return convert_from(payload, 'UTF8');
exception when others then
  return payload::text;
end `;

function select(names: TableNames): string {
  const text = `${names.object('payload_text')}(m.payload)`;
  const content = `t.name as transport, m.topic, m.key, m.type, m.version, m.content_type, m.headers, m.options,
  ${text} as payload, m.payload as payload_bytes, m.created_at`;
  const from = (table: string): string => `from ${table} m left join ${names.transports} t on t.id = m.transport`;
  return `select m.id, 'ready'::text as state, ${content},
  null::timestamptz as due_at, 0 as attempts, null::text as last_error, null::timestamptz as published_at, m.bucket, m.seq,
  null::timestamptz as last_attempt_at, null::text as errors
  ${from(names.ready)}
union all select m.id, (array['scheduled','waiting','blocked','dead'])[m.state], ${content},
  m.due_at, m.attempts, m.last_error, null, m.bucket, m.seq, m.attempted_at, m.errors
  ${from(names.parked)}
union all select m.id, 'published', ${content},
  null, m.attempts, null, m.published_at, m.bucket, m.seq, m.published_at, null
  ${from(names.archive)}`;
}

/** Longest key in bytes: it must fit into an index of the parked table. */
const MAX_KEY_BYTES = 1024;
const COLUMNS = 'transport, bucket, id, topic, key, type, version, content_type, headers, options, payload';

/**
 * The bucket is the same as in `enqueue/bucket-of.ts`: the first two bytes of sha256(key, or id without a key), big
 * endian, modulo the bucket count. The id is a UUIDv7 made of the database's clock and 74 random bits.
 */
function insertBody(names: TableNames, { buckets, ordering }: SchemaDefinition): string {
  const stage = ordering === 'strict' ? stageKeyed(names) : '';
  const bucket = ordering === 'global' ? '0' : `((get_byte(hash, 0) << 8) | get_byte(hash, 1)) % ${buckets}`;
  return `
declare
  target smallint := 0;
  hash bytea;
begin
  if new.transport is not null then
    select t.id into target from ${names.transports} t where t.name = new.transport;
    if target is null then raise exception 'outbox: there is no transport named %', new.transport; end if;
  end if;
  if octet_length(new.key) > ${MAX_KEY_BYTES} then raise exception 'outbox: key is longer than ${MAX_KEY_BYTES} bytes'; end if;
  new.id := coalesce(new.id, encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing
    substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid);
  hash := sha256(convert_to(coalesce(new.key, new.id::text), 'UTF8'));
  new.bucket := ${bucket};
  new.type := coalesce(new.type, new.topic);
  new.version := coalesce(new.version, 1);
  new.content_type := coalesce(new.content_type, 'application/json');
  new.payload_bytes := coalesce(new.payload_bytes, convert_to(new.payload, 'UTF8'));
  ${stage}if new.due_at is null then
    insert into ${names.ready} (${COLUMNS}) values (target, new.bucket, new.id, new.topic, new.key, new.type,
      new.version, new.content_type, new.headers, new.options, new.payload_bytes)
      returning seq, created_at into new.seq, new.created_at;
    new.state := 'ready';
  else
    insert into ${names.parked} (${COLUMNS}, state, due_at) values (target, new.bucket, new.id, new.topic, new.key, new.type,
      new.version, new.content_type, new.headers, new.options, new.payload_bytes, 1, new.due_at)
      returning seq, created_at into new.seq, new.created_at;
    new.state := 'scheduled';
  end if;
  return new;
end `;
}

/** Its number is given out at COMMIT: INSERT … RETURNING seq says null. */
function stageKeyed({ staged }: TableNames): string {
  return `if new.due_at is null and new.key is not null then
    insert into ${staged} (${COLUMNS}) values (target, new.bucket, new.id, new.topic, new.key, new.type,
      new.version, new.content_type, new.headers, new.options, new.payload_bytes) returning created_at into new.created_at;
    new.state := 'ready';
  els`;
}
