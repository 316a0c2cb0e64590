import { bucketOf } from '../../message/bucket-of.js';
import { lookDeadline } from '../find-by-id.js';
import { PAGE_LOOK, type RowFilter, type RowPage, type RowRequest, type StoredState } from '../inspect-store.js';
import type { StoreSettings } from '../names.js';
import { readPosition, writePosition } from '../position.js';
import { ALWAYS, allOf, type Conditions } from './conditions.js';
import type { Dialect } from './dialect.js';
import type { OrderColumn } from './index-pages.js';
import type { Lookup, Place } from './lookup.js';
import { readRow } from './rows.js';
import type { Select, TimedSelects } from './timed-selects.js';

/** Rows of one state, in the order of an index, which may have them in several parts. */
export interface Strip {
  /** Those of {@link readRow}. */
  readonly columns: string;
  readonly order: readonly OrderColumn[];
  /** What all rows of the index have: a page looks at a bounded number of them. */
  readonly dense: Conditions;
  /** What the rows of this state have besides. */
  readonly sparse: Conditions;
  /** Whether the rows of a part may be more than a page looks at. */
  readonly isLong: boolean;
  readonly parts: number;
  /** Reads each part, and of all that the first rows: in an order of columns `k0`, `k1` … */
  read(part: PartRead, limit: number): Select;
}
export interface PartRead {
  readonly columns: string;
  readonly where: Conditions;
  /** In the order of the part. */
  readonly order: string;
  readonly limit: number;
  readonly offset: number;
}
export interface PageSql {
  strip(state: StoredState, filter: RowFilter, where: StripPlaces): Strip;
}
export interface StripPlaces {
  /** Transports that the filter means. */
  readonly transports: readonly number[];
  /** Buckets of these in which its rows are. */
  readonly places: readonly Place[];
  /** Of a key. */
  readonly bucket: number | undefined;
}

/** Rows that a look takes from each part at least. */
const LEAST_LOOK = 50;
/** Milliseconds: by how much clocks may differ, and a transaction may be older than what was committed before it. */
const SLACK = 3_600_000;

/**
 * Rows of one state, page by page: first up to where a bounded number of index entries leads, then those up to there that
 * the filter means.
 */
export class Pages {
  constructor(
    private readonly reads: TimedSelects,
    private readonly dialect: Dialect,
    private readonly sql: PageSql,
    private readonly settings: StoreSettings,
    private readonly lookup: Lookup,
  ) {}

  async page(request: RowRequest): Promise<RowPage> {
    const { dialect } = this;
    const strip = this.sql.strip(request.state, request, await this.places(request));
    const { order } = strip;
    if (strip.parts === 0) return { rows: [], next: null };
    const deadline = lookDeadline();
    const { from, to } = await this.ofAge(request, order, deadline);
    const shape = order.map(({ part }) => part);
    const after = request.after === null ? from : readPosition(request.after, shape);
    const left = allOf([strip.dense, after === undefined ? ALWAYS : dialect.compared(order, '>', after)]);
    const end = strip.isLong ? await this.end(strip, left, deadline) : undefined;
    const upTo = end === undefined ? ALWAYS : dialect.compared(order, '<=', end);
    const meant = allOf([left, upTo, strip.sparse, dialect.filtered(request)]);
    const found = await this.read(strip, `${strip.columns}, `, meant, { limit: request.limit, offset: 0 }, deadline);
    const last = found.length < request.limit ? end : positionIn(found.at(-1) ?? [], order);
    const isLast = last === undefined || (to !== undefined && BigInt(last[0] as string) > to);
    return { rows: found.map((row) => readRow(dialect, row)), next: isLast ? null : writePosition(last) };
  }

  /** Where the look ends; `undefined`: at the end. */
  private async end(strip: Strip, left: Conditions, deadline: number): Promise<readonly string[] | undefined> {
    const each = Math.max(LEAST_LOOK, Math.ceil(PAGE_LOOK / strip.parts));
    const [row] = await this.read(strip, '', left, { limit: 1, offset: each - 1 }, deadline);
    return row && positionIn(row, strip.order);
  }

  /** Behind the columns come where the row stands, and what it is ordered by. */
  private read(
    strip: Strip,
    columns: string,
    where: Conditions,
    bounds: { readonly limit: number; readonly offset: number },
    deadline: number,
  ): ReturnType<TimedSelects['select']> {
    const { order } = strip;
    const positions = order.map((column, n) => `${this.dialect.readBack(column)} as p${n}`);
    const keys = order.map(({ name }, n) => `${name} as k${n}`);
    const part = {
      columns: columns + [...positions, ...keys].join(', '),
      where,
      order: order.map(({ name }) => name).join(', '),
      ...bounds,
    };
    return this.reads.select(deadline, strip.read(part, bounds.limit));
  }

  private async places({ transport, key }: RowFilter): Promise<StripPlaces> {
    const { buckets, ordering } = this.settings;
    const transports = transport === undefined ? await this.lookup.transportIds() : [transport];
    const bucket = key === undefined ? undefined : ordering === 'global' ? 0 : bucketOf(key, buckets);
    const all = await this.lookup.places(transport);
    return { transports, bucket, places: bucket === undefined ? all : all.filter((place) => place[1] === bucket) };
  }

  /** Of what is ready the numbers between which rows of this age are, with room for transactions that overlap. */
  private async ofAge(
    { state, olderThan, youngerThan }: RowRequest,
    order: readonly OrderColumn[],
    deadline: number,
  ): Promise<{ from?: string[]; to?: bigint }> {
    if (state !== 'ready' || (olderThan ?? youngerThan) === undefined) return {};
    const now = Date.now();
    const times = { from: now - (youngerThan ?? now) - SLACK, to: now - (olderThan ?? -SLACK) + SLACK };
    const range = await this.lookup.numbersBetween(times, deadline);
    if (range === undefined) return {};
    return { from: [String(range.from - 1n), ...order.slice(1).map(() => '0')], to: range.to };
  }
}

const positionIn = (row: readonly unknown[], { length }: readonly OrderColumn[]): string[] =>
  row
    .slice(-2 * length)
    .slice(0, length)
    .map(String);
