import { systemClock } from '../../../time/clock.js';
import { keyBytes } from '../../../message/key-bytes.js';
import type { SqlConnection } from '../../executor.js';
import type { MessageFilter } from '../../admin-store.js';
import { stillElsewhere, type Deleted, type Elsewhere, type Looks } from '../../elsewhere.js';
import { meansReady } from '../../operator-rows.js';
import { bucketSql } from '../schema/tables.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { statement, type Sql, type Statement } from '../../sql.js';
import { among, MysqlFind, textConditions, type Among, type Conditions } from './find.js';

/** Milliseconds for a look through the hot table, beyond its first page; each statement has a deadline of its own. */
export const SEARCH_TIMEOUT = 2_000;
/** Rows of the hot table that one statement looks through: the time may end between two, and others get their turn. */
const PAGE = 50_000;

/** Where in the hot table to look, in the order of an index that has no holes there. */
interface Range {
  readonly index: 'primary' | 'by_seq';
  readonly conditions: Conditions;
}

/** What became of messages that an operator meant and did not get. Only reads: locks no row and waits for none. */
export class MysqlTooLate {
  /** @internal */ readonly transports: Statement;
  /** @internal */ readonly bucketOf: Statement;

  constructor(
    readonly connection: () => SqlConnection,
    readonly names: TableNames,
    readonly settings: StoreSettings,
    readonly find: MysqlFind,
  ) {
    this.transports = statement('all transports', `select id from ${names.transports} order by id`);
    this.bucketOf = statement(
      'bucket of a key',
      `select ${bucketSql('?', { ...settings, ordering: 'key' })} as bucket`,
    );
  }

  /**
   * Of these ids, those in the hot table, as the rest of the filter says. It has no key on the id: this reads all of it, and of a
   * message key its bucket.
   * With a backlog too long to be searched in time, every id may be in it: nobody is told that it is gone.
   */
  async readyAmong(ids: readonly string[], filter: Among): Promise<string[]> {
    const found = new Set<string>();
    const deadline = systemClock.monotonic() + SEARCH_TIMEOUT;
    const { key, transport } = filter;
    const ranges = key === undefined ? [EVERYTHING] : await this.ranges(filter);
    for (const range of ranges) {
      const whole = await this.look(range, among(ids, filter), deadline, (rows) => {
        for (const [id, of] of rows) if (transport === undefined || Number(of) === transport) found.add(String(id));
        return true;
      });
      if (!whole) return [...ids];
    }
    return [...found];
  }

  /** Of messages whose rows were deleted, those that another transport still has. */
  elsewhere(deleted: readonly Deleted[], { transport }: MessageFilter): Promise<Set<string>> {
    const parked = (ids: readonly string[]): Promise<string[]> => this.find.parkedAmong(this.connection(), ids, {});
    return stillElsewhere(transport === undefined ? deleted : [], {
      ...this.looks(systemClock.monotonic() + SEARCH_TIMEOUT),
      parked,
    });
  }

  /** Of messages in these rows, those that another transport has ready. */
  readyElsewhere(rows: readonly Deleted[], deadline: number): Promise<Set<string>> {
    return stillElsewhere(rows, { ...this.looks(deadline), parked: async () => [] });
  }

  /** @internal */ looks(deadline: number): Pick<Looks, 'transports' | 'ready'> {
    return { transports: () => this.transportIds(), ready: (place) => this.readyIn(place, deadline) };
  }

  /** @internal */ async readyIn(
    { bucket, transports, ids }: Elsewhere,
    deadline: number,
  ): Promise<string[] | undefined> {
    const found: string[] = [];
    for (const transport of transports) {
      const whole = await this.look(inBucket(transport, bucket), among(ids, {}), deadline, (rows) => {
        for (const [id] of rows) found.push(String(id));
        return true;
      });
      if (!whole) return undefined;
    }
    return found;
  }

  /** @internal */ async transportIds(): Promise<number[]> {
    return (await this.connection().run(this.transports.bind())).rows.map(([id]) => Number(id));
  }

  /**
   * What is ready, then what is parked, because rows move only in this direction.
   * @param states what could be changed now was parked since the change, which had every row of the filter in its
   * hands; empty when it had not
   * @param named the states that the filter speaks of
   */
  async byFilter(filter: MessageFilter, states: readonly number[], named: readonly number[]): Promise<string[]> {
    const { limit } = filter;
    const deadline = systemClock.monotonic() + SEARCH_TIMEOUT;
    const found = new Set<string>();
    const collect = (rows: readonly (readonly unknown[])[]): boolean => {
      for (const [id] of rows) found.add(String(id));
      return found.size < limit;
    };
    for (const range of meansReady(filter) ? await this.ranges(filter) : []) {
      if (found.size >= limit) break;
      await this.look(range, textConditions(filter), deadline, collect, limit);
    }
    if (found.size < limit) collect((await this.connection().run(this.find.late(filter, states, named))).rows);
    return [...found].slice(0, limit);
  }

  /** A key is in one bucket; without one, the whole table in the order of its numbers takes fewest statements. */
  async ranges({ transport, key }: Pick<MessageFilter, 'transport' | 'key'>): Promise<Range[]> {
    if (key === undefined || this.settings.ordering === 'global') {
      const conditions =
        transport === undefined ? EVERYWHERE : { conditions: ['transport = ?'], values: [transport] as unknown[] };
      return [{ index: 'by_seq', conditions }];
    }
    const [place] = (await this.connection().run(this.bucketOf.bind(keyBytes(key)))).rows;
    const transports = transport === undefined ? await this.transportIds() : [transport];
    return transports.map((of) => inBucket(of, Number(place?.[0])));
  }

  /**
   * Page by page, until `found` has enough. The first page is looked at however late it is: a database that
   * answers slowly is not a long backlog. @returns whether there was the time for all of it
   */
  async look(
    range: Range,
    wanted: Conditions,
    deadline: number,
    found: (rows: readonly (readonly unknown[])[]) => boolean,
    limit = Number.MAX_SAFE_INTEGER,
  ): Promise<boolean> {
    for (let after = 0n; ;) {
      const end = (await this.connection().run(this.pageEnd(range, after))).rows[0]?.[0];
      if (end === null || end === undefined) return true;
      if (after > 0n && systemClock.monotonic() > deadline) return false;
      const { rows } = await this.connection().run(this.inPage(range, after, BigInt(end as string), wanted, limit));
      if (!found(rows)) return true;
      after = BigInt(end as string);
    }
  }

  /** @internal */ pageEnd({ index, conditions }: Range, after: bigint): Sql {
    const within = index === 'by_seq' ? EVERYWHERE : conditions;
    return statement(
      undefined,
      `select max(seq) from (select seq from ${this.names.ready} force index (${index})
      where ${[...within.conditions, 'seq > ?'].join(' and ')} order by seq limit ?) page`,
    ).bind(...within.values, after, PAGE);
  }

  /** @internal */ inPage(range: Range, after: bigint, end: bigint, wanted: Conditions, limit: number): Sql {
    const { index, conditions } = range;
    const all = [...conditions.conditions, 'seq > ?', 'seq <= ?', ...wanted.conditions].join(' and ');
    return statement(
      undefined,
      `select id, transport, bucket, seq from ${this.names.ready} force index (${index}) where ${all} limit ?`,
    ).bindAll([...conditions.values, after, end, ...wanted.values, limit]);
  }
}

const EVERYWHERE: Conditions = { conditions: [], values: [] };
const EVERYTHING: Range = { index: 'by_seq', conditions: EVERYWHERE };

function inBucket(transport: number, bucket: number): Range {
  return { index: 'primary', conditions: { conditions: ['transport = ?', 'bucket = ?'], values: [transport, bucket] } };
}
