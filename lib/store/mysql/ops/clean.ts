import type { CleanReport } from '../../admin-store.js';
import type { SqlDatabase } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { DEAD } from '../../parked-state.js';
import { inTransaction } from '../../retry.js';
import type { CleanSql } from '../../sql/clean.js';
import { statement } from '../../sql.js';
import { jsonRows, lookUp, PARKED_IDS } from '../json-rows.js';
import type { DedupKey, MysqlDedupKeys } from '../ready/dedup-keys.js';
import { marks, sized } from '../statements.js';
import { removeArchived } from './operators.js';

/** A row can be created somewhat before one with a lower seq: by the length of a statement, never by this much. */
const CLOCK_MARGIN = '1 hour';
const TOO_OLD = 'utc_timestamp(6) - interval ? microsecond';
const microseconds = (age: number): number => Math.round(age * 1000);

export function cleanSql(names: TableNames): CleanSql {
  const { archive, parked, transports } = names;
  const archived = statement(
    'old archived',
    `select published_at, archive_id from ${archive} force index (by_time)
      where published_at < ${TOO_OLD} order by published_at limit ? for update skip locked`,
  );
  const withDead = statement(
    'transports with old dead',
    `select t.id from ${transports} t where ${firstDeath(parked, '1')} < ${TOO_OLD} or ${firstDeath(parked, '?')} < ${TOO_OLD}`,
  );
  const dead = statement(
    'old dead',
    `select parked_id, transport, bucket, \`key\`, blocking from ${parked} force index (by_state)
      where transport = ? and state = ${DEAD} and announced in (1, ?) and died_at < ${TOO_OLD} limit ? for update skip locked`,
  );
  const remove = statement('clean dead', `delete p from ${lookUp(PARKED_IDS, `${parked} p`)} on p.parked_id = k.p`);
  const told = (announcedOnly: boolean): number => (announcedOnly ? 1 : 0);
  return {
    archived: (age, limit) => archived.bind(microseconds(age), limit),
    remove: removeArchived(names.archive).remove,
    withDead: (age, announcedOnly) => withDead.bind(microseconds(age), told(announcedOnly), microseconds(age)),
    dead: (age, limit, announcedOnly, transport) => dead.bind(transport, told(announcedOnly), microseconds(age), limit),
    removeParked: (numbers) => remove.bind(jsonRows(numbers.map((number) => [BigInt(number as string)]))),
  };
}

/** The server reads one row: the order is that of the index. Its columns are all named: for the last one alone MySQL sorts all dead rows. */
const firstDeath = (parked: string, announced: string): string =>
  `(select p.died_at from ${parked} p force index (by_state)
    where p.transport = t.id and p.state = ${DEAD} and p.announced = ${announced}
    order by p.transport, p.state, p.announced, p.died_at limit 1)`;

interface DedupRow extends DedupKey {
  readonly bucket: number;
  readonly createdAt: string;
}
const FRONT = { key: '', createdAt: '1000-01-01 00:00:00' };

export class MysqlDedupCleaner {
  private readonly sql: ReturnType<typeof dedupStatements>;
  /** The dedup row that was looked at last: however many stay, the ones behind them have their turn. */
  private lastLooked: Pick<DedupRow, 'key' | 'createdAt'> = FRONT;

  constructor(
    private readonly database: SqlDatabase,
    names: TableNames,
    private readonly keys: MysqlDedupKeys,
  ) {
    this.sql = dedupStatements(names);
  }

  /** One page of old rows. What is parked is looked at last: rows move from ready to parked and never back. */
  async clean(age: number, limit: number): Promise<CleanReport> {
    const { key, createdAt } = this.lastLooked;
    const page = this.sql.page.bind(microseconds(age), createdAt, createdAt, key, limit);
    const rows = (await this.database.connection('admin').run(page)).rows.map(readDedup);
    const ready = await this.ready(rows);
    const free = rows.filter(({ id }) => !ready.has(id));
    const removed = await inTransaction(this.database.connection('admin'), (tx) => this.keys.free(tx, free, free));
    this.lastLooked = rows.length < limit ? FRONT : (rows.at(-1) ?? FRONT);
    return { removed, looked: rows.length };
  }

  /**
   * Ids whose message is still ready. That table has no key on the id: a bucket whose oldest row is younger than the key cannot
   * hold its message; only the others are searched.
   */
  async ready(rows: readonly DedupRow[]): Promise<Set<string>> {
    const found = new Set<string>();
    if (rows.length === 0) return found;
    const admin = this.database.connection('admin');
    const newest = rows.at(-1)?.createdAt;
    for (const [transport] of (await admin.run(this.sql.transports.bind())).rows) {
      for (const bucket of new Set(rows.map((row) => row.bucket))) {
        const { rows: old } = await admin.run(this.sql.holdsOld.bind(newest, transport, bucket));
        if (Number(old[0]?.[0] ?? 0) === 0) continue;
        const ids = rows.filter((row) => row.bucket === bucket).map(({ id }) => id);
        const there = await admin.run(this.sql.inReady(ids.length).bind(transport, bucket, ...ids));
        for (const [id] of there.rows) found.add(String(id));
      }
    }
    return found;
  }
}

function dedupStatements({ dedup, ready, transports }: TableNames) {
  return {
    transports: statement('transports', `select id from ${transports}`),
    page: statement(
      'old dedup',
      `select hex(dedup_key), hex(claim), id, bucket, created_at from ${dedup} force index (by_time)
      where created_at < ${TOO_OLD} and created_at >= ? and (created_at > ? or dedup_key > unhex(?))
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
  };
}

const readDedup = ([key, claim, id, bucket, createdAt]: readonly unknown[]): DedupRow => ({
  key: String(key),
  claim: String(claim),
  id: String(id),
  bucket: Number(bucket),
  createdAt: String(createdAt),
});
