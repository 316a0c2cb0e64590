import { systemClock } from '../../../time/clock.js';
import type { SqlConnection, SqlResult } from '../../executor.js';
import type { MessageFilter, Change } from '../../admin-store.js';
import { stillElsewhere, type Deleted } from '../../elsewhere.js';
import { meansReady, statesOf } from '../../operator-rows.js';
import type { StoreSettings, TableNames } from '../../names.js';
import type { Sql } from '../../sql.js';
import { statement } from '../statement.js';
import { bucketOf } from './admin-statements.js';
import { plainArray } from '../arrays.js';
import { stateNumber } from '../columns.js';
import { beingSent } from '../parked/settle.js';

/** SQLSTATE of a statement that ran out of time. */
const CANCELED = '57014';
/** Milliseconds for a look; the last of them are for the parked table, which is small. */
const SEARCH_TIMEOUT = 2_000;
const PARKED_TIME = 500;
/** Pieces in which a transport's backlog is looked through: others get their turn, and the time may end between two. */
const PIECES = 8;

/** What a filter says besides ids. */
type Conditions = Partial<Pick<MessageFilter, 'transport' | 'key' | 'topic' | 'type'>>;

/** Buckets `from` to `to` of a transport. */
type Piece = readonly [transport: number, from: number, to: number];

/** What became of messages that an operator meant and did not get. Only reads: locks no row and waits for none. */
export class PostgresTooLate {
  /** @internal */ readonly sql: ReturnType<typeof statements>;

  constructor(
    readonly connection: () => SqlConnection,
    readonly names: TableNames,
    readonly settings: StoreSettings,
  ) {
    this.sql = statements(names, settings);
  }

  /**
   * Of these ids what is there as the rest of the filter says, and what is not.
   *
   * Messages move only from ready to parked, so that one which is in neither when looked for in this order, and not in
   * parked once more, was never in both looks' gap: it is nowhere.
   */
  async byIds(ids: readonly string[], filter: MessageFilter): Promise<{ tooLate: string[]; notFound: string[] }> {
    if (ids.length === 0) return { tooLate: [], notFound: [] };
    const search = await this.search(ids, filter, systemClock.monotonic() + SEARCH_TIMEOUT);
    // With a backlog too long to be searched in time, every id may be in it: nobody is told that it is gone.
    if (search === undefined) return { tooLate: [...ids], notFound: [] };
    const there = new Set(idsOf(search));
    const gone = ids.filter((id) => !there.has(id));
    for (const id of await this.parkedAmong(gone, filter)) there.add(id);
    return { tooLate: ids.filter((id) => there.has(id)), notFound: ids.filter((id) => !there.has(id)) };
  }

  /** @internal With a key the rows of one bucket are read, and not all that is ready. @returns `undefined` when the time is over */
  async search(ids: readonly string[], filter: MessageFilter, deadline: number): Promise<SqlResult | undefined> {
    const { ready, parked } = this.names;
    const bucket = await this.bucketOf(filter.key);
    if (bucket === undefined) {
      const look = union([among(ready, ids, filter), among(parked, ids, filter)]);
      return this.within(deadline, 'any plan', look);
    }
    const transports = filter.transport === undefined ? await this.transports() : [filter.transport];
    const look = union([amongKey(ready, ids, filter, { transports, bucket }), among(parked, ids, filter)]);
    return this.within(deadline, 'by index', look);
  }

  /** Of messages whose rows were deleted, those that another transport still has. */
  async elsewhere(deleted: readonly Deleted[], { transport }: MessageFilter): Promise<Set<string>> {
    const deadline = systemClock.monotonic() + SEARCH_TIMEOUT;
    return stillElsewhere(transport === undefined ? deleted : [], {
      transports: () => this.transports(),
      ready: async ({ bucket, transports, ids }) => {
        const look = this.sql.readyIn.bind(plainArray(transports), bucket, plainArray(ids));
        const rows = await this.within(deadline, 'by index', look);
        return rows === undefined ? undefined : idsOf(rows);
      },
      parked: (ids) => this.parkedAmong(ids, {}),
    });
  }

  /** @internal */ async parkedAmong(ids: readonly string[], filter: Conditions): Promise<string[]> {
    if (ids.length === 0) return [];
    return idsOf(await this.connection().run(union([among(this.names.parked, ids, filter)])));
  }

  /** @internal */ async transports(): Promise<number[]> {
    return (await this.connection().run(this.sql.transports.bind())).rows.map(([id]) => Number(id));
  }

  /**
   * Ready rows first, then parked ones, for the same reason.
   * @param sawAll the change had every row of the filter in its hands: what could be changed now was parked since then
   */
  async byFilter(change: Change, filter: MessageFilter, sawAll: boolean): Promise<string[]> {
    const deadline = systemClock.monotonic() + SEARCH_TIMEOUT;
    const found = new Set<string>();
    const pieces = meansReady(filter) ? await this.pieces(filter, deadline - PARKED_TIME) : [];
    for (const piece of pieces) {
      if (found.size >= filter.limit) break;
      const rows = await this.within(deadline - PARKED_TIME, 'by index', this.readySql(piece, filter));
      for (const id of idsOf(rows)) found.add(id);
    }
    if (found.size < filter.limit) {
      const rows = await this.within(deadline, 'any plan', this.parkedSql(change, filter, sawAll));
      for (const id of idsOf(rows)) found.add(id);
    }
    return [...found].slice(0, filter.limit);
  }

  /** @internal Of transports that have anything ready. A key is in one bucket. */
  async pieces({ transport, key }: MessageFilter, deadline: number): Promise<Piece[]> {
    const only = transport ?? null;
    const ready = await this.within(deadline, 'by index', this.sql.withReady.bind(only, only));
    const transports = (ready?.rows ?? []).map(([id]) => Number(id));
    const ranges = this.settings.ordering === 'global' ? [[0, 0] as const] : await this.ranges(key);
    return transports.flatMap((id) => ranges.map(([from, to]): Piece => [id, from, to]));
  }

  /** @internal */ async ranges(key: string | undefined): Promise<(readonly [from: number, to: number])[]> {
    const { buckets } = this.settings;
    const bucket = await this.bucketOf(key);
    if (bucket !== undefined) return [[bucket, bucket]];
    const size = Math.ceil(buckets / PIECES);
    const count = Math.ceil(buckets / size);
    return Array.from({ length: count }, (_, piece) => [piece * size, (piece + 1) * size - 1] as const);
  }

  /** Where all messages of a key are; `undefined`: anywhere. */
  async bucketOf(key: string | undefined): Promise<number | undefined> {
    if (key === undefined || this.settings.ordering === 'global') return undefined;
    return Number((await this.connection().run(this.sql.bucket.bind(key))).rows[0]?.[0]);
  }

  /** @internal */ readySql([transport, from, to]: Piece, filter: MessageFilter): Sql {
    const { text, values } = conditions(filter);
    return statement(
      undefined,
      `select o.id from ${this.names.ready} o
       where o.transport = ?::smallint and o.bucket between ?::smallint and ?::smallint${text} limit ?`,
    ).bind(transport, from, to, ...values, filter.limit);
  }

  /** @internal */ parkedSql(change: Change, filter: MessageFilter, sawAll: boolean): Sql {
    const { text, values } = conditions(filter);
    const { transport = null, limit } = filter;
    const { parked, leases } = this.names;
    const sent = beingSent(leases);
    const among = `o.state = any('${plainArray(statesOf(change, filter).map((state) => String(stateNumber(state))))}')`;
    // Of the states that the filter names; without any also what is sent in a state that the call does not change.
    const ofAny = sawAll ? `(${sent} or ${among})` : sent;
    const late = filter.states === undefined ? ofAny : `${among} and ${sawAll ? 'true' : sent}`;
    return statement(
      undefined,
      `select o.id from ${parked} o where ${late} and (?::smallint is null or o.transport = ?)${text} limit ?`,
    ).bind(transport, transport, ...values, limit);
  }

  /** @returns `undefined` when the time is over */
  async within(deadline: number, plan: 'by index' | 'any plan', sql: Sql): Promise<SqlResult | undefined> {
    try {
      return await this.connection().transaction(async (tx) => {
        const left = Math.floor(deadline - systemClock.monotonic());
        if (left <= 0) return undefined;
        await tx.run(this.sql.limits.bind(plan === 'by index' ? 'off' : 'on', String(left)));
        return tx.run(sql);
      });
    } catch (error) {
      if ((error as { code?: string }).code !== CANCELED) throw error;
      return undefined;
    }
  }
}

function statements({ ready, transports }: TableNames, settings: StoreSettings) {
  return {
    /**
     * No index knows what an operator asks for: tables are looked through, but not for long; a bucket by its own index. To
     * compile a plan takes longer than most of them run.
     */
    limits: statement(
      undefined,
      `select set_config('enable_seqscan', ?, true), set_config('statement_timeout', ?, true), set_config('jit', 'off', true)`,
    ),
    transports: statement(undefined, `select id from ${transports} order by id`),
    withReady: statement(
      undefined,
      `select t.id from ${transports} t cross join lateral (
        select from ${ready} o where o.transport = t.id order by o.bucket, o.seq limit 1) r
      where ?::smallint is null or t.id = ? order by t.id`,
    ),
    bucket: statement(undefined, `select ${bucketOf({ ...settings, ordering: 'key' })}`),
    readyIn: statement(
      undefined,
      `select id from ${ready} where transport = any(?::smallint[]) and bucket = ?::smallint and id = any(?::uuid[])`,
    ),
  };
}

/** A piece of a statement, with its values. */
interface Look {
  readonly text: string;
  readonly values: readonly unknown[];
}

/** Which of these ids are in this table, as the conditions say. */
function among(table: string, ids: readonly string[], filter: Conditions): Look {
  const { text, values } = conditions(filter);
  const { transport = null } = filter;
  return {
    text: `select o.id from ${table} o where o.id = any(?::uuid[]) and (?::smallint is null or o.transport = ?)${text}`,
    values: [plainArray(ids), transport, transport, ...values],
  };
}

/** The same by the index of the ready table, of a key that is in this bucket. */
function amongKey(
  ready: string,
  ids: readonly string[],
  filter: Conditions,
  { transports, bucket }: { transports: readonly number[]; bucket: number },
): Look {
  const { text, values } = conditions(filter);
  return {
    text: `select o.id from ${ready} o
      where o.transport = any(?::smallint[]) and o.bucket = ?::smallint and o.id = any(?::uuid[])${text}`,
    values: [plainArray(transports), bucket, plainArray(ids), ...values],
  };
}

function union(looks: readonly Look[]): Sql {
  const text = looks.map((look) => look.text).join(' union ');
  return statement(undefined, text).bind(...looks.flatMap(({ values }) => values));
}

export function conditions({ key, topic, type }: Conditions): { text: string; values: string[] } {
  const given = Object.entries({ key, topic, type }).filter(
    (entry): entry is [string, string] => entry[1] !== undefined,
  );
  return {
    text: given.map(([column]) => ` and o.${column} = ?::text`).join(''),
    values: given.map(([, value]) => value),
  };
}

const idsOf = (result: SqlResult | undefined): string[] => (result?.rows ?? []).map((row) => row[0] as string);
