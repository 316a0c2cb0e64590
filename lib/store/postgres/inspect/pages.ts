import { lookDeadline } from '../../find-by-id.js';
import { bucketOf } from '../../../message/bucket-of.js';
import { PAGE_LOOK, type RowFilter, type RowPage, type RowRequest } from '../../inspect-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { readPosition, writePosition } from '../../position.js';
import type { Sql } from '../../sql.js';
import { plainArray } from '../arrays.js';
import { POSTGRES } from '../dialect.js';
import { statement } from '../statement.js';
import { readRow, ROW_LENGTH } from './rows.js';
import type { PostgresLookup } from './lookup.js';
import { compared, positionOf, shapeOf, stripOf, type Strip } from './strips.js';
import type { TimedReads } from './timed-reads.js';

/** Milliseconds: by how much clocks may differ, and a transaction may be older than what was committed before it. */
const SLACK = 3_600_000;
/** Rows that a look takes from each bucket at least. */
const LEAST_LOOK = 50;

interface Look {
  readonly strip: Strip;
  readonly after: readonly string[] | undefined;
  readonly places: readonly (readonly [transport: number, bucket: number])[];
}

/**
 * Rows of one state, page by page: first up to where a bounded number of index entries leads, then those up to there that
 * the filter means.
 */
export class PostgresPages {
  constructor(
    readonly reads: TimedReads,
    readonly names: TableNames,
    readonly settings: StoreSettings,
    readonly lookup: Pick<PostgresLookup, 'numbersBetween' | 'places'>,
  ) {}

  async page(request: RowRequest): Promise<RowPage> {
    const strip = stripOf(request.state, request, this.names, this.settings);
    const deadline = lookDeadline();
    const { from, to } = await this.ofAge(request, deadline);
    const after = request.after === null ? from : readPosition(request.after, shapeOf(strip));
    const look = { strip, after, places: strip.perBucket ? await this.places(request) : [] };
    const end = (await this.reads.inTime(deadline, this.endSql(look))).rows[0]?.map(String);
    const { rows } = await this.reads.inTime(deadline, this.rowsSql(look, end, request));
    const last = rows.length < request.limit ? end : rows.at(-1)?.slice(ROW_LENGTH, ROW_LENGTH + strip.order.length);
    const isLast = last === undefined || (to !== undefined && BigInt(last[0] as string) > to);
    return { rows: rows.map(readRow), next: isLast ? null : writePosition(last) };
  }

  /** @internal Of what is ready the numbers between which rows of this age are, with room for transactions that overlap. */
  async ofAge(request: RowRequest, deadline: number): Promise<{ from?: string[]; to?: bigint }> {
    const { state, olderThan, youngerThan } = request;
    if (state !== 'ready' || (olderThan ?? youngerThan) === undefined) return {};
    const now = Date.now();
    const times = { from: now - (youngerThan ?? now) - SLACK, to: now - (olderThan ?? -SLACK) + SLACK };
    const range = await this.lookup.numbersBetween(times, deadline);
    return range === undefined ? {} : { from: [String(range.from - 1n), '0', '0'], to: range.to };
  }

  /** @internal */ async places({ transport, key }: RowFilter): Promise<(readonly [number, number])[]> {
    const { buckets, ordering } = this.settings;
    const all = await this.lookup.places(transport);
    if (ordering === 'global' || key === undefined) return all;
    const bucket = bucketOf(key, buckets);
    return all.filter((place) => place[1] === bucket);
  }

  /** @internal Where the look ends; no row: at the end. */
  endSql({ strip, after, places }: Look): Sql {
    const { table, dense, order, perBucket } = strip;
    const names = order.map(({ name }) => name).join(', ');
    const from = `from ${table} o where ${dense}${after === undefined ? '' : ` and ${compared(strip, '>')}`}`;
    const values = [...(after ?? [])];
    if (!perBucket)
      return statement(
        undefined,
        `select ${positionOf(strip)} ${from} order by ${names} offset ${PAGE_LOOK - 1} limit 1`,
      ).bind(...values);
    const ordered = order.map(({ name }, n) => `${name} as k${n}`).join(', ');
    const each = Math.max(LEAST_LOOK, Math.ceil(PAGE_LOOK / Math.max(1, places.length)));
    const keys = order.map((_, n) => `s.k${n}`).join(', ');
    const outer = positionOf({ ...strip, order: order.map(({ type }, n) => ({ name: `s.k${n}`, type })) });
    return statement(
      undefined,
      `select ${outer} from ${PLACES} cross join lateral (select ${ordered} ${from} and ${IN_PLACE}
         order by ${names} offset ${each - 1} limit 1) s order by ${keys} limit 1`,
    ).bind(...placeArrays(places), ...values);
  }

  /** @internal */ rowsSql(
    { strip, after, places }: Look,
    end: readonly string[] | undefined,
    request: RowRequest,
  ): Sql {
    const { table, columns, dense, sparse, order, perBucket } = strip;
    const names = order.map(({ name }) => name).join(', ');
    const meant = POSTGRES.filtered(request);
    const where = [
      dense,
      ...(after === undefined ? [] : [compared(strip, '>')]),
      ...(end === undefined ? [] : [compared(strip, '<=')]),
      sparse,
      ...meant.conditions,
    ].join(' and ');
    const values = [...(after ?? []), ...(end ?? []), ...meant.values];
    const keys = order.map(({ name }, n) => `${name} as k${n}`).join(', ');
    const inner = `select ${columns}, ${positionOf(strip)}${perBucket ? `, ${keys}` : ''} from ${table} o where ${where}`;
    if (!perBucket) return statement(undefined, `${inner} order by ${names} limit ?`).bind(...values, request.limit);
    return statement(
      undefined,
      `select s.* from ${PLACES} cross join lateral (${inner} and ${IN_PLACE} order by ${names} limit ?) s
       order by ${order.map((_, n) => `s.k${n}`).join(', ')} limit ?`,
    ).bind(...placeArrays(places), ...values, request.limit, request.limit);
  }
}

const PLACES = 'unnest(?::smallint[], ?::smallint[]) p(t, b)';
const IN_PLACE = 'o.transport = p.t and o.bucket = p.b';
const placeArrays = (places: Look['places']): [string, string] => [
  plainArray(places.map(([transport]) => transport)),
  plainArray(places.map(([, bucket]) => bucket)),
];
