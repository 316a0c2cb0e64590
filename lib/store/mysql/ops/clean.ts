import type { SqlDatabase } from '../../executor.js';
import type { CleanStore, DedupReport } from '../../admin-store.js';
import type { TableNames } from '../../names.js';
import { statement } from '../../sql.js';
import { updateOf } from '../capabilities.js';
import { readKey } from '../columns.js';
import { DEAD } from '../../parked-state.js';
import { jsonRows, jsonTable, lookUp, PARKED_IDS } from '../json-rows.js';
import { inTransaction } from '../../retry.js';
import { marks, sized } from '../statements.js';
import type { AuditTable } from '../../sql/audit.js';
import type { MysqlWake } from '../parked/wake.js';

/** A row can be created somewhat before one with a lower seq: by the length of a statement, never by this much. */
const CLOCK_MARGIN = '1 hour';

interface DedupRow {
  readonly key: Buffer;
  /** Of the call that wrote it: the key may be free, and somebody else's, by the time that we remove it. */
  readonly claim: Buffer;
  readonly id: string;
  readonly bucket: number;
  readonly createdAt: string;
}
const FRONT = { key: Buffer.alloc(0), createdAt: '1000-01-01 00:00:00' };

/** Deletes what is final and old enough, in bounded batches. */
export class MysqlClean implements CleanStore {
  private readonly sql: ReturnType<typeof cleanStatements>;
  /** The dedup row that was looked at last: however many stay, the ones behind them have their turn. */
  private lastLooked: Pick<DedupRow, 'key' | 'createdAt'> = FRONT;

  constructor(
    readonly database: SqlDatabase,
    names: TableNames,
    readonly wake: MysqlWake,
    readonly audits: AuditTable,
  ) {
    this.sql = cleanStatements(names);
  }

  cleanAudit(age: number, limit: number): Promise<number> {
    return this.audits.clean(age, limit);
  }

  cleanArchive(age: number, limit: number): Promise<number> {
    return inTransaction(this.database.connection('admin'), async (tx) => {
      const { rows } = await tx.run(this.sql.oldArchived.bind(microseconds(age), limit));
      if (rows.length === 0) return 0;
      const list = jsonRows(rows.map(([id, publishedAt]) => [BigInt(id as string), String(publishedAt)]));
      return (await tx.run(this.sql.removeArchived.bind(list))).affected;
    });
  }

  async cleanDead(age: number, limit: number, announcedOnly: boolean): Promise<number> {
    let removed = 0;
    const oldest = microseconds(age);
    const bound = this.sql.withDead.bind(oldest, announcedOnly ? 1 : 0, oldest);
    for (const [transport] of (await this.database.connection('admin').run(bound)).rows) {
      if (removed < limit) removed += await this.cleanDeadOf(Number(transport), age, limit - removed, announcedOnly);
    }
    return removed;
  }

  /** A key that a dead row held goes on. */
  private cleanDeadOf(transport: number, age: number, limit: number, announcedOnly: boolean): Promise<number> {
    return inTransaction(this.database.connection('admin'), async (tx) => {
      const { rows } = await tx.run(this.sql.dead.bind(transport, announcedOnly ? 1 : 0, microseconds(age), limit));
      if (rows.length === 0) return 0;
      await tx.run(this.sql.removeDead.bind(jsonRows(rows.map(([parkedId]) => [BigInt(parkedId as string)]))));
      const held = rows.filter(([, , key, blocking]) => this.wake.holds(blocking, key));
      const keys = held.map(
        ([, bucket, key]) =>
          [
            `${String(bucket)} ${readKey(key)}`,
            { transport, bucket: Number(bucket), key: readKey(key) ?? '' },
          ] as const,
      );
      await this.wake.wake(tx, [...new Map(keys).values()]);
      return rows.length;
    });
  }

  /** One page of old rows. */
  async cleanDedup(age: number, limit: number): Promise<DedupReport> {
    const { key, createdAt } = this.lastLooked;
    const sql = this.sql.oldDedup.bind(microseconds(age), createdAt, createdAt, key, limit);
    const rows = (await this.database.connection('admin').run(sql)).rows.map(readDedup);
    const unsettled = rows.length === 0 ? new Set() : await this.unsettled(rows);
    const removed = await this.removeDedup(rows.filter(({ id }) => !unsettled.has(id)));
    this.lastLooked = rows.length < limit ? FRONT : (rows.at(-1) ?? FRONT);
    return { removed, looked: rows.length };
  }

  /**
   *Ids whose message is still in the hot or the parked table. The hot table has no key on the id: a bucket whose
   * oldest row is younger than the key cannot hold its message; only the others are searched.
   */
  async unsettled(rows: readonly DedupRow[]): Promise<Set<string>> {
    const admin = this.database.connection('admin');
    const transports = await this.transports();
    const newest = rows.at(-1)?.createdAt;
    const found = new Set<string>();
    const buckets = [...new Set(rows.map(({ bucket }) => bucket))];
    for (const transport of transports) {
      for (const bucket of buckets) {
        const { rows: old } = await admin.run(this.sql.holdsOld.bind(newest, transport, bucket));
        if (Number(old[0]?.[0] ?? 0) === 0) continue;
        const ids = rows.filter((row) => row.bucket === bucket).map(({ id }) => id);
        const there = await admin.run(this.sql.inReady(ids.length).bind(transport, bucket, ...ids));
        for (const [id] of there.rows) found.add(String(id));
      }
    }
    // Last, because rows move from ready to parked and never back.
    const ids = rows.map(({ id }) => id);
    for (const [id] of (await admin.run(this.sql.inParked(ids.length).bind(...ids))).rows) found.add(String(id));
    return found;
  }

  private async transports(): Promise<number[]> {
    return (await this.database.connection('admin').run(this.sql.transports.bind())).rows.map(([id]) => Number(id));
  }

  /**
   *Waits for none that somebody holds: an enqueue locks several, in an order of its own, and must not be the victim
   * of a deadlock with us.
   */
  private removeDedup(rows: readonly DedupRow[]): Promise<number> {
    if (rows.length === 0) return Promise.resolve(0);
    return inTransaction(this.database.connection('admin'), async (tx) => {
      const wanted = jsonRows(rows.map(({ key, claim }) => [key.toString('hex'), claim.toString('hex')]));
      const locked = (await tx.run(this.sql.lockDedup.bind(wanted))).rows.map(([key]) => [String(key)]);
      if (locked.length === 0) return 0;
      return (await tx.run(this.sql.removeDedup.bind(jsonRows(locked)))).affected;
    });
  }
}

function cleanStatements(tables: TableNames) {
  const { archive, parked, transports } = tables;
  const tooOld = 'utc_timestamp(6) - interval ? microsecond';
  return {
    transports: statement('transports', `select id from ${transports}`),
    oldArchived: statement(
      'old archived',
      `select archive_id, published_at from ${archive} force index (by_time)
      where published_at < ${tooOld} order by published_at limit ? for update skip locked`,
    ),
    removeArchived: statement(
      'clean archive',
      // With its time a row of an archive in partitions is looked for in one of them.
      `delete a from ${lookUp(jsonTable({ a: 'bigint unsigned', t: 'datetime(6)' }), `${archive} a`)}
      on a.archive_id = k.a and a.published_at = k.t`,
    ),
    withDead: statement(
      'transports with old dead',
      `select t.id from ${transports} t where ${firstDeath(parked, '1')} < ${tooOld} or ${firstDeath(parked, '?')} < ${tooOld}`,
    ),
    dead: statement(
      'old dead',
      `select parked_id, bucket, \`key\`, blocking from ${parked} force index (by_state)
      where transport = ? and state = ${DEAD} and announced in (1, ?) and died_at < ${tooOld} limit ? for update skip locked`,
    ),
    removeDead: statement('clean dead', `delete p from ${lookUp(PARKED_IDS, `${parked} p`)} on p.parked_id = k.p`),
    ...dedupStatements(tables, tooOld),
  };
}

/** The server reads one row: the order is that of the index. Its columns are all named: for the last one alone MySQL sorts all dead rows. */
const firstDeath = (parked: string, announced: string): string =>
  `(select p.died_at from ${parked} p force index (by_state)
    where p.transport = t.id and p.state = ${DEAD} and p.announced = ${announced}
    order by p.transport, p.state, p.announced, p.died_at limit 1)`;

function dedupStatements({ parked, dedup, ready }: TableNames, tooOld: string) {
  return {
    oldDedup: statement(
      'old dedup',
      `select dedup_key, id, bucket, created_at, claim from ${dedup} force index (by_time)
      where created_at < ${tooOld} and created_at >= ? and (created_at > ? or dedup_key > ?)
      order by created_at, dedup_key limit ?`,
    ),
    holdsOld: statement(
      'holds old',
      `select created_at < cast(? as datetime(6)) + interval ${CLOCK_MARGIN} as holds
      from ${ready} force index (primary) where transport = ? and bucket = ? order by seq limit 1`,
    ),
    inReady: sized(
      (n) => `select id from ${ready} force index (primary) where transport = ? and bucket = ? and id in (${marks(n)})`,
    ),
    inParked: sized((n) => `select id from ${parked} where id in (${marks(n)})`),
    lockDedup: statement(
      'lock dedup',
      `select hex(d.dedup_key) from ${lookUp(jsonTable({ h: 'varchar(510)', c: 'char(32)' }), `${dedup} d`)}
      on d.dedup_key = unhex(k.h) and d.claim = unhex(k.c) ${updateOf('d')} skip locked`,
    ),
    removeDedup: statement(
      'clean dedup',
      `delete d from ${lookUp(jsonTable({ h: 'varchar(510)' }), `${dedup} d`)} on d.dedup_key = unhex(k.h)`,
    ),
  };
}

function readDedup([key, id, bucket, createdAt, claim]: readonly unknown[]): DedupRow {
  return {
    key: key as Buffer,
    id: String(id),
    bucket: Number(bucket),
    createdAt: String(createdAt),
    claim: claim as Buffer,
  };
}

const microseconds = (age: number): number => Math.round(age * 1000);
