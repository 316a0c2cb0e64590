import type { CleanReport } from '../../admin-store.js';
import type { SqlConnection } from '../../executor.js';
import type { TableNames } from '../../names.js';
import { DEAD } from '../../parked-state.js';
import type { CleanSql } from '../../sql/clean.js';
import type { Statement } from '../../sql.js';
import { plainArray } from '../arrays.js';
import { utc } from '../inspect/rows.js';
import { unheldIn } from '../ready/dedup-keys.js';
import { statement } from '../statement.js';
import { removeArchived } from './operators.js';

const FRONT = ['-infinity', '(0,0)'] as const;
const OLD = (column: string): string => `${column} < now() - ?::float8 * interval '1 ms'`;

export function cleanSql(names: TableNames): CleanSql {
  const { archive, parked } = names;
  const archived = statement(
    'outbox_clean_archive',
    `select ${utc('o.published_at')}, o.transport, o.bucket, o.seq from ${archive} o where ${OLD('o.published_at')}
       order by o.published_at limit ? for update skip locked`,
  );
  const dead = statement(
    'outbox_clean_dead',
    `select o.parked_id, o.transport, o.bucket, o.key, o.blocking from ${parked} o where o.died_at is not null
       and ${OLD('o.died_at')} and o.state = ${DEAD} and (o.announced or not ?::boolean)
       order by o.died_at limit ? for update skip locked`,
  );
  const removeParked = statement(undefined, `delete from ${parked} where parked_id = any(?::bigint[])`);
  return {
    archived: (age, limit) => archived.bind(age, limit),
    remove: removeArchived(names.archive).remove,
    withDead: undefined,
    dead: (age, limit, announcedOnly) => dead.bind(age, announcedOnly, limit),
    removeParked: (numbers) => removeParked.bind(plainArray(numbers as string[])),
  };
}

export class PostgresDedupCleaner {
  private readonly sql: Statement;
  /**
   * The dedup row that was looked at last: however many stay, the ones behind them have their turn. The index has
   * rows of one instant in the order of their places.
   */
  private lastLooked: readonly [createdAt: string, ctid: string] = FRONT;

  constructor(
    private readonly connection: () => SqlConnection,
    names: TableNames,
  ) {
    this.sql = cleanDedup(names);
  }

  /** One page of old rows. */
  async clean(age: number, limit: number): Promise<CleanReport> {
    const [createdAt, ctid] = this.lastLooked;
    const [row = []] = (await this.connection().run(this.sql.bind(age, createdAt, createdAt, ctid, limit))).rows;
    const [looked, removed] = [Number(row[0]), Number(row[1])];
    this.lastLooked = looked < limit ? FRONT : [String(row[2]), String(row[3])];
    return { removed, looked };
  }
}

function cleanDedup(names: TableNames): Statement {
  const { dedup } = names;
  return statement(
    'outbox_clean_dedup',
    `with page as materialized (select o.ctid, o.created_at from ${dedup} o where ${OLD('o.created_at')}
         and o.created_at >= ?::timestamptz and (o.created_at > ?::timestamptz or o.ctid > ?::tid)
         order by o.created_at limit ?),
       gone as (delete from ${dedup} where ctid = any(array(select o.ctid from ${dedup} o
         where o.ctid = any(array(select ctid from page)) and ${unheldIn(names)} for update skip locked)) returning 1),
       counted as (select count(*) as looked from page)
       select c.looked, (select count(*) from gone), p.created_at::text, p.ctid::text
       from counted c left join lateral (select * from page offset greatest(c.looked - 1, 0)) p on true`,
  );
}
