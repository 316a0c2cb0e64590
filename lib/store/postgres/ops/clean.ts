import type { SqlConnection } from '../../executor.js';
import type { CleanStore, DedupReport } from '../../admin-store.js';
import type { TableNames } from '../../names.js';
import type { Statement } from '../../sql.js';
import { statement } from '../statement.js';
import { DEAD } from '../../parked-state.js';
import type { PostgresWake } from '../parked/wake.js';
import type { AuditTable } from '../../sql/audit.js';
import { unheldIn } from '../ready/dedup-keys.js';

type Cleaning = 'archive' | 'dead' | 'dedup';
const FRONT = ['-infinity', '(0,0)'] as const;
const OLD = (column: string): string => `${column} < now() - ?::float8 * interval '1 ms'`;

/** Deletes what is final and old, oldest first, past rows that somebody else is cleaning. */
export class PostgresCleaner implements CleanStore {
  private readonly sql: Readonly<Record<Cleaning, Statement>>;
  /**
   *The dedup row that was looked at last: however many stay, the ones behind them have their turn. The index has
   * rows of one instant in the order of their places.
   */
  private lastLooked: readonly [createdAt: string, ctid: string] = FRONT;

  constructor(
    readonly connection: () => SqlConnection,
    names: TableNames,
    readonly wake: PostgresWake,
    readonly audits: AuditTable,
  ) {
    this.sql = cleanStatements(names);
  }

  cleanAudit(age: number, limit: number): Promise<number> {
    return this.audits.clean(age, limit);
  }

  async cleanArchive(age: number, limit: number): Promise<number> {
    return (await this.connection().run(this.sql.archive.bind(age, limit))).affected;
  }

  /** A key that waited for a dead message goes on. */
  async cleanDead(age: number, limit: number, announcedOnly: boolean): Promise<number> {
    return this.connection().transaction(async (tx) => {
      const { rows } = await tx.run(this.sql.dead.bind(age, announcedOnly, limit));
      await this.wake.wakeBehind(tx, rows);
      return rows.length;
    });
  }

  /** One page of old rows. */
  async cleanDedup(age: number, limit: number): Promise<DedupReport> {
    const [createdAt, ctid] = this.lastLooked;
    const bound = this.sql.dedup.bind(age, createdAt, createdAt, ctid, limit);
    const [row = []] = (await this.connection().run(bound)).rows;
    const [looked, removed] = [Number(row[0]), Number(row[1])];
    this.lastLooked = looked < limit ? FRONT : [String(row[2]), String(row[3])];
    return { removed, looked };
  }
}

function cleanStatements(names: TableNames): Record<Cleaning, Statement> {
  const { archive, parked, dedup } = names;
  return {
    // Each partition has places of its own: one and the same is of an old row here, of a young one there.
    archive: statement(
      'outbox_clean_archive',
      `with old as materialized (select o.tableoid as part, o.ctid as place from ${archive} o where ${OLD('o.published_at')}
         order by o.published_at limit ? for update skip locked)
       delete from ${archive} where ctid = any(array(select place from old)) and (tableoid, ctid) in (select part, place from old)`,
    ),
    dead: statement(
      'outbox_clean_dead',
      `delete from ${parked} p where p.ctid = any(array(select o.ctid from ${parked} o
         where o.died_at is not null and ${OLD('o.died_at')} and o.state = ${DEAD}
         and (o.announced or not ?::boolean)
         order by o.died_at limit ? for update skip locked))
       returning p.id, p.transport, p.bucket, p.key, p.blocking`,
    ),
    dedup: statement(
      'outbox_clean_dedup',
      `with page as materialized (select o.ctid, o.created_at from ${dedup} o where ${OLD('o.created_at')}
         and o.created_at >= ?::timestamptz and (o.created_at > ?::timestamptz or o.ctid > ?::tid)
         order by o.created_at limit ?),
       gone as (delete from ${dedup} where ctid = any(array(select o.ctid from ${dedup} o
         where o.ctid = any(array(select ctid from page)) and ${unheldIn(names)} for update skip locked)) returning 1),
       counted as (select count(*) as looked from page)
       select c.looked, (select count(*) from gone), p.created_at::text, p.ctid::text
       from counted c left join lateral (select * from page offset greatest(c.looked - 1, 0)) p on true`,
    ),
  };
}
