import type { SqlResult } from '../../executor.js';
import { IdSearch, lookDeadline, NOWHERE, type IdTable, type IdTables } from '../../find-by-id.js';
import { latestOf, LOOK_TIMEOUT, type RowContent, type RowsById, type StoredRow } from '../../inspect-store.js';
import { ROW_LIMITS } from '../../limits.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { seekTime, WIDE, writtenBetween, type NumberedRow, type Reach } from '../../seek-time.js';
import type { Sql, Statement } from '../../sql.js';
import { plainArray } from '../arrays.js';
import { statement } from '../statement.js';
import { readRow, ROW_COLUMNS } from './rows.js';
import type { Plan, TimedReads } from './timed-reads.js';

function asRows(result: SqlResult): StoredRow[];
function asRows(result: SqlResult | undefined): StoredRow[] | undefined;
function asRows(result: SqlResult | undefined): StoredRow[] | undefined {
  return result?.rows.map(readRow);
}

/** Messages by id. Only the parked table has an index of them: elsewhere the time in a UUIDv7 leads to the place. */
export class PostgresLookup {
  /** @internal */ readonly sql: ReturnType<typeof lookupStatements>;
  /** @internal */ readonly search: IdSearch;
  /** Of what waits. @internal */ readonly waiting: IdSearch;

  constructor(
    readonly reads: TimedReads,
    readonly names: TableNames,
    readonly settings: StoreSettings,
  ) {
    const sql = (this.sql = lookupStatements(names));
    const all =
      (look: Statement, plan: Plan): IdTable['all'] =>
      async (ids, deadline) =>
        asRows(await reads.within(deadline, plan, look.bind(plainArray(ids))));
    const tables = {
      ready: { all: all(sql.ready, 'any plan'), near: (...look) => this.near(...look) },
      parked: { all: all(sql.parked, 'in order') },
      archived: {
        all: all(sql.archive, 'any plan'),
        near: (...look) => this.archivedNear(...look),
        rest: (ids, deadline) => this.archivedNear(ids, { ...WIDE, published: Infinity }, deadline),
      },
      transports: async () => (await this.transports()).length,
    } satisfies IdTables;
    this.search = new IdSearch(tables);
    this.waiting = new IdSearch({ ...tables, archived: NOWHERE }, LOOK_TIMEOUT);
  }

  byIds(ids: readonly string[]): Promise<RowsById> {
    return this.search.find(ids);
  }

  /** Of these ids what waits; what is ready in one bucket alone, if that is known. */
  async locate(ids: readonly string[], bucket?: number): Promise<RowsById> {
    if (bucket === undefined) return this.waiting.find(ids);
    const [transports, named] = [plainArray(await this.transports()), plainArray(ids)];
    const ready = asRows(
      await this.reads.within(lookDeadline(), 'by index', this.sql.readyIn.bind(transports, bucket, named)),
    );
    const parked = asRows(await this.reads.within(lookDeadline(), 'in order', this.sql.parked.bind(named)));
    const rows = latestOf([...(ready ?? []), ...(parked ?? [])]);
    return { rows, isComplete: ready !== undefined && parked !== undefined };
  }

  /** @internal Where rows of these times stand. */
  async near(ids: readonly string[], reach: Reach, deadline: number): Promise<StoredRow[]> {
    const times = writtenBetween(ids, reach);
    const range = times === undefined ? undefined : await this.numbersBetween(times, deadline);
    if (range === undefined) return [];
    const numbers = [String(range.from), String(range.to)];
    const look = this.sql.readyNear.bind(...(await this.placeArrays()), plainArray(ids), ...numbers);
    const rows = await this.reads.within(deadline, 'in order', look);
    return asRows(rows) ?? [];
  }

  /** Numbers of the ready rows that were written between two times; `undefined`: there are none, or there was no time. */
  async numbersBetween(
    { from, to }: { readonly from: number; readonly to: number },
    deadline: number,
  ): Promise<{ from: bigint; to: bigint } | undefined> {
    const places = await this.placeArrays();
    return this.reads.several(deadline, 'in order', async (read) => {
      const at = async (seq: bigint): Promise<NumberedRow | undefined> =>
        numbered(await read(this.sql.first.bind(...places, String(seq))));
      const last = numbered(await read(this.sql.last.bind(...places)));
      const first = await at(0n);
      if (first === undefined || last === undefined) return undefined;
      return {
        from: await seekTime(from, { first, last, side: 'before' }, at),
        to: await seekTime(to, { first, last, side: 'behind' }, at),
      };
    });
  }

  /** All buckets of one transport, or of all. */
  async places(transport?: number): Promise<(readonly [transport: number, bucket: number])[]> {
    const transports = transport === undefined ? await this.transports() : [transport];
    const buckets = this.settings.ordering === 'global' ? 1 : this.settings.buckets;
    return transports.flatMap((id) => Array.from({ length: buckets }, (_, bucket) => [id, bucket] as const));
  }

  /** @internal */ async transports(): Promise<number[]> {
    return (await this.reads.connection().run(this.sql.transports.bind())).rows.map(([id]) => Number(id));
  }

  /** @internal */ async placeArrays(): Promise<[string, string]> {
    const places = await this.places();
    return [plainArray(places.map(([id]) => id)), plainArray(places.map(([, bucket]) => bucket))];
  }

  /** @internal */ async archivedNear(
    ids: readonly string[],
    reach: Reach,
    deadline: number,
  ): Promise<StoredRow[] | undefined> {
    const times = writtenBetween(ids, reach);
    const from = times === undefined ? '-infinity' : new Date(times.from).toISOString();
    const isOpen = times === undefined || reach.published === Infinity;
    const to = isOpen ? 'infinity' : new Date(times.to + reach.published).toISOString();
    const look = this.sql.archiveBetween.bind(from, to, plainArray(ids));
    const rows = await this.reads.within(deadline, isOpen ? 'any plan' : 'in order', look);
    return asRows(rows);
  }

  async content(row: StoredRow, previewBytes: number): Promise<RowContent | undefined> {
    const [first] = (await this.reads.inTime(lookDeadline(), this.contentSql(row, previewBytes))).rows;
    if (first === undefined) return undefined;
    const [headers, options, errors, size, preview] = first;
    return {
      headers: headers as string | null,
      options: options as string | null,
      errors: errors as string | null,
      payloadBytes: size === null ? null : Number(size),
      preview: preview === null ? null : Buffer.from(preview as string, 'hex'),
    };
  }

  /** @internal */ contentSql({ state, transport, bucket, seq, id, publishedAt }: StoredRow, preview: number): Sql {
    if (state === 'ready') return this.sql.contentReady.bind(preview, transport, bucket, seq, id);
    if (state !== 'published') return this.sql.contentParked.bind(preview, id, transport, seq);
    const from = publishedAt?.getTime() ?? 0;
    const between = [new Date(from).toISOString(), new Date(from + 1).toISOString()] as const;
    return this.sql.contentArchive.bind(preview, ...between, transport, bucket, seq, id);
  }
}

function numbered(result: SqlResult | undefined): NumberedRow | undefined {
  const [row] = result?.rows ?? [];
  return row === undefined ? undefined : { seq: BigInt(row[0] as string), createdAt: Number(row[1]) };
}

/** What nobody may write any more, but may be there from before the limits, is left where it is. */
const small = (column: 'headers' | 'options'): string =>
  `case when octet_length(o.${column}) <= ${ROW_LIMITS[column]} then o.${column} end`;
const content = (errors: string): string =>
  `select ${small('headers')}, ${small('options')}, ${errors}, octet_length(o.payload),
    encode(substring(o.payload from 1 for ?::int), 'hex')`;

function readyStatements(ready: string, places: string) {
  const columns = `select ${ROW_COLUMNS.ready} from ${ready} o`;
  return {
    ready: statement(undefined, `${columns} where o.id = any(?::uuid[])`),
    readyIn: statement(
      undefined,
      `${columns} where o.transport = any(?::smallint[]) and o.bucket = ?::smallint and o.id = any(?::uuid[])`,
    ),
    readyNear: statement(
      undefined,
      `with meant as materialized (select x.place from ${places} cross join lateral (select o.ctid place from ${ready} o
         where o.transport = p.t and o.bucket = p.b and o.id = any(?::uuid[]) and o.seq >= ?::bigint and o.seq <= ?::bigint) x)
       ${columns} where o.ctid = any(array(select place from meant))`,
    ),
  };
}

function lookupStatements({ ready, parked, archive, transports }: TableNames) {
  const places = 'unnest(?::smallint[], ?::smallint[]) p(t, b)';
  const time = `case when isfinite(x.created_at) then (extract(epoch from x.created_at) operator(pg_catalog.*) 1000)::bigint else 0 end`;
  const edge = (condition: string, direction: '' | ' desc'): string =>
    `select x.seq, ${time} from ${places} cross join lateral (select o.seq, o.created_at from ${ready} o
       where o.transport = p.t and o.bucket = p.b${condition} order by o.seq${direction} limit 1) x order by x.seq${direction} limit 1`;
  return {
    transports: statement(undefined, `select id from ${transports} order by id`),
    ...readyStatements(ready, places),
    parked: statement(undefined, `select ${ROW_COLUMNS.parked} from ${parked} o where o.id = any(?::uuid[])`),
    archive: statement(undefined, `select ${ROW_COLUMNS.archive} from ${archive} o where o.id = any(?::uuid[])`),
    archiveBetween: statement(
      undefined,
      `select ${ROW_COLUMNS.archive} from ${archive} o
       where o.published_at >= ?::timestamptz and o.published_at <= ?::timestamptz and o.id = any(?::uuid[])`,
    ),
    first: statement(undefined, edge(' and o.seq >= ?::bigint', '')),
    last: statement(undefined, edge('', ' desc')),
    contentReady: statement(
      undefined,
      `${content('null')} from ${ready} o where o.transport = ?::smallint and o.bucket = ?::smallint and o.seq = ?::bigint and o.id = ?::uuid`,
    ),
    contentParked: statement(
      undefined,
      `${content('o.errors')} from ${parked} o where o.id = ?::uuid and o.transport = ?::smallint and o.seq = ?::bigint`,
    ),
    contentArchive: statement(
      undefined,
      `${content('null')} from ${archive} o where o.published_at >= ?::timestamptz and o.published_at <= ?::timestamptz
         and o.transport = ?::smallint and o.bucket = ?::smallint and o.seq = ?::bigint and o.id = ?::uuid`,
    ),
  };
}
