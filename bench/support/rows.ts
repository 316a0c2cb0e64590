import type pg from 'pg';

export interface Rows {
  readonly rows: number;
  readonly keys: number;
  readonly topic?: string;
  /** In front of the key's number. */
  readonly prefix?: string;
  /** Default: `PAYLOAD`. */
  readonly payload?: string;
  /** SQL for the headers of message `g`. Default: none. */
  readonly headers?: string;
  /** All become visible in one commit, which this calls and waits for. Default: as they come, and vacuumed. */
  readonly commit?: (sql: string) => Promise<unknown>;
}

/** Bytes of a payload: what the targets are stated for. */
export const PAYLOAD_BYTES = 300;
/** JSON, so that a consumer of any kind may look at it. */
export const payloadOf = (bytes: number): string =>
  JSON.stringify({ note: 'x'.repeat(Math.max(0, bytes - '{"note":""}'.length)) });
export const PAYLOAD = payloadOf(PAYLOAD_BYTES);

/** Messages that are ready, in order of their numbers, keys in turn: a backlog as an outage of the broker leaves it. */
export async function fillReady(admin: pg.Client, wanted: Rows): Promise<void> {
  const { rows, keys, topic = 'orders', prefix = 'k', headers = 'null', payload = PAYLOAD, commit } = wanted;
  const fill = (fills++).toString(16).padStart(3, '0');
  if (commit !== undefined) await admin.query('begin');
  for (let from = 0; from < rows; from += CHUNK) {
    await admin.query(
      `insert into outbox_ready (bucket, id, topic, key, type, payload, headers)
       select (('x' || substr(encode(sha256(convert_to(k, 'UTF8')), 'hex'), 1, 4))::bit(16)::int % 32)::smallint,
         ('01938f00-0000-7000-8${fill}-' || lpad(to_hex(g), 12, '0'))::uuid, $1, k, 'order.placed', $2::bytea, ${headers}
       from generate_series($3::int, $4::int) g cross join lateral (select $5 || (g % $6::int) as k) x`,
      [topic, Buffer.from(payload), from + 1, Math.min(rows, from + CHUNK), prefix, keys],
    );
  }
  await admin.query(commit === undefined ? 'vacuum analyze outbox_ready' : 'analyze outbox_ready');
  await commit?.('commit');
}
const CHUNK = 50_000;
/** No id comes twice: a broker's answer names the message by its id. */
let fills = 0;

/** Messages that are not due before tomorrow. */
export async function fillScheduled(admin: pg.Client, { rows, keys }: Rows): Promise<void> {
  for (let from = 0; from < rows; from += CHUNK) {
    await admin.query(
      `insert into outbox_parked (bucket, id, topic, key, type, payload, state, due_at)
       select (g % 32)::smallint, ('01938f00-0000-7000-9000-' || lpad(to_hex(g), 12, '0'))::uuid, 'orders',
         's' || (g % $1::int), 'order.placed', $2::bytea, 1, now() + interval '1 day'
       from generate_series($3::int, $4::int) g`,
      [keys, Buffer.from(PAYLOAD), from + 1, Math.min(rows, from + CHUNK)],
    );
  }
  await admin.query('vacuum analyze outbox_parked');
}

/** As fast as new, without the dead rows and the grown index of the round before. */
export async function empty(admin: pg.Client): Promise<void> {
  await admin.query('truncate outbox_ready, outbox_parked');
}
