import { readFileSync } from 'node:fs';
import type { DataSource } from 'typeorm';
import { series } from './databases.js';
import type { DatabaseKind } from './services.js';

/** Makes the tables that a database had before there was another version. They have eight buckets. */
export async function makeVersion1(db: DataSource, kind: DatabaseKind, ordering: 'key' | 'strict'): Promise<void> {
  await makeVersion(1, db, kind, ordering);
}

/** The same of any version before today's. */
export async function makeVersion(
  version: 1 | 2,
  db: DataSource,
  kind: DatabaseKind,
  ordering: 'key' | 'strict',
): Promise<void> {
  const dialect = kind === 'postgres' ? 'postgres' : 'mysql';
  const sql = readFileSync(`test/support/version-${version}/${dialect}-${ordering}.sql`, 'utf8');
  if (kind === 'postgres') await db.query(sql);
  else for (const text of sql.split(/;\n\n?(?=\S|$)/)) if (text.trim() !== '') await db.query(text);
}

/** How many rows of each kind. */
export interface Filling {
  readonly ready: number;
  readonly scheduled: number;
  readonly waiting: number;
  readonly dead: number;
  readonly blocked: number;
  readonly archive: number;
  readonly dedup: number;
}
export const fillingOf = (rows: number): Filling => ({
  ready: rows * 0.4,
  scheduled: rows * 0.1,
  waiting: rows * 0.1,
  dead: rows * 0.1,
  blocked: rows * 0.1,
  archive: rows * 0.1,
  dedup: rows * 0.1,
});

/** As those of transport 0, which is registered: `<table>` of plain SQL, each key's messages numbered from 1 in their payload. */
export async function fill(db: DataSource, kind: DatabaseKind, filling: Filling, buckets: number): Promise<void> {
  const sql = kind === 'postgres' ? postgresRows(buckets) : mysqlRows(kind);
  const { ready, scheduled, waiting, dead, blocked, archive, dedup } = filling;
  // A thousand keys, so that each has several.
  await db.query(sql.ready(ready, `concat('r', seq % 1000)`, '(seq - 1) div 1000 + 1'));
  await db.query(sql.parked(scheduled, `concat('s', seq)`, '1', { state: 1, blocking: 0, due: true }));
  await db.query(sql.parked(waiting, `concat('w', seq)`, '1', { state: 2, blocking: 1, due: true }));
  await db.query(sql.parked(dead, `concat('d', seq)`, '1', { state: 4, blocking: 1, due: false }));
  await db.query(sql.parked(blocked, `concat('d', seq)`, '2', { state: 3, blocking: 1, due: false, behind: dead }));
  await db.query(sql.archive(archive));
  await db.query(sql.dedup(dedup));
}

interface Parked {
  readonly state: number;
  readonly blocking: 0 | 1;
  readonly due: boolean;
  /** Numbers that come before its own. */
  readonly behind?: number;
}
interface Rows {
  ready(count: number, key: string, n: string): string;
  parked(count: number, key: string, n: string, row: Parked): string;
  archive(count: number): string;
  dedup(count: number): string;
}

function postgresRows(buckets: number): Rows {
  const bucket = `((get_byte(sha256(convert_to(k, 'UTF8')), 0) << 8) | get_byte(sha256(convert_to(k, 'UTF8')), 1)) % ${buckets}`;
  const content = 'bucket, id, topic, type, key, payload';
  const values = (count: number, key: string, n: string): string =>
    `${bucket}, gen_random_uuid(), 'filled', 'filled', k, convert_to(n, 'UTF8') from (select seq, ${key} as k, (${n.replace(' div ', ' / ')})::text as n from ${series('postgres', count)}) s order by seq`;
  return {
    ready: (count, key, n) => `insert into outbox_ready (${content}) select ${values(count, key, n)}`,
    parked: (count, key, n, { state, blocking, due }) =>
      `insert into outbox_parked (state, blocking, attempts, announced, due_at, died_at, ${content})
      select ${state}, ${blocking === 1}, ${state === 1 ? 0 : 1}, ${state === 4}, ${due ? `now() + interval '1 day'` : 'null'}, ${state === 4 ? 'now()' : 'null'}, ${values(count, key, n)}`,
    archive: (count) => `insert into outbox_archive (seq, ${content}) select seq, ${values(count, `'a' || seq`, '1')}`,
    dedup: (count) =>
      `insert into outbox_dedup (dedup_key, id) select 'filled ' || seq, gen_random_uuid() from ${series('postgres', count)}`,
  };
}

function mysqlRows(kind: DatabaseKind): Rows {
  const values = (count: number, key: string, n: string): string =>
    `'filled', ${key}, ${n} from ${series(kind, count)} order by seq`;
  return {
    ready: (count, key, n) => `insert into outbox_ready (topic, \`key\`, payload) select ${values(count, key, n)}`,
    parked: (count, key, n, { state, blocking, due, behind = 0 }) =>
      `insert into outbox_parked (state, blocking, attempts, announced, due_at, died_at, seq, topic, \`key\`, payload)
      select ${state}, ${blocking}, ${state === 1 ? 0 : 1}, ${Number(state === 4)}, ${due ? 'utc_timestamp(6) + interval 1 day' : 'null'}, ${state === 4 ? 'utc_timestamp(6)' : 'null'}, seq + ${behind}, ${values(count, key, n)}`,
    archive: (count) =>
      `insert into outbox_archive (seq, topic, \`key\`, payload) select seq, ${values(count, `concat('a', seq)`, '1')}`,
    dedup: (count) =>
      `insert into outbox_dedup (dedup_key, id, bucket, claim) select concat('filled ', seq), uuid(), 0, unhex('00') from ${series(kind, count)}`,
  };
}
