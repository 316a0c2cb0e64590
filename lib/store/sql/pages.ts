import { bucketOf } from '../../message/bucket-of.js';
import { REPLAY_MARK } from '../../message/replay-header.js';
import { systemClock } from '../../time/clock.js';
import {
  LOOK_TIMEOUT,
  PAGE_LOOK,
  type PageRow,
  type RowFilter,
  type RowPage,
  type RowRequest,
} from '../inspect-store.js';
import { literal, type StoreSettings } from '../names.js';
import { DEAD, SCHEDULED, stateNumber } from '../parked-state.js';
import { readPosition, writePosition, type PositionPart } from '../position.js';
import { ALWAYS, allOf, condition, type Conditions } from './conditions.js';
import type { Dialect } from './dialect.js';
import { filtered } from './filter.js';
import type { Lookup, Place } from './lookup.js';
import { readRow, ROW_LENGTH } from './rows.js';
import type { Rows, Select, TimedSelects } from './timed-selects.js';

export interface OrderColumn {
  readonly name: string;
  readonly part: PositionPart;
}
/** Rows in the order of an index, which may have them in several parts. */
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
  readonly order: readonly string[];
  /** Of each column of the order. */
  readonly direction: '' | ' desc';
  readonly limit: number;
  readonly offset: number;
}
export interface PageSql {
  strip(request: RowRequest, where: StripPlaces): Strip;
}
export interface StripPlaces {
  /** Transports that the filter means. */
  readonly transports: readonly number[];
  /** Buckets of these in which its rows are. */
  readonly places: readonly Place[];
  /** Of a key. */
  readonly bucket: number | undefined;
}
/** How one page is read. */
interface Look {
  readonly strip: Strip;
  readonly direction: PartRead['direction'];
  readonly deadline: number;
}

/** Rows that a look takes from each part at least. */
const LEAST_LOOK = 50;
/** Milliseconds: by how much clocks may differ, and a transaction may be older than what was committed before it. */
const SLACK = 3_600_000;
const BYTES = 'coalesce(octet_length(payload), 0) + coalesce(octet_length(headers), 0)';
const IS_REPLAY = `coalesce(headers like ${literal(`%${REPLAY_MARK}%`)}, false)`;

/** In the order of an index, or of several of its parts. */
export function sortedBy({ order, direction }: Pick<PartRead, 'order' | 'direction'>): string {
  return ` order by ${order.map((name) => name + direction).join(', ')}`;
}

/**
 * Rows page by page, in the order of an index: first up to where a bounded number of its entries leads, then those up to there that
 * the filter means. So a page is over in a bounded time, whatever is meant.
 */
export class Pages {
  constructor(
    private readonly reads: TimedSelects,
    private readonly dialect: Dialect,
    private readonly sql: PageSql,
    private readonly settings: StoreSettings,
    private readonly lookup: Lookup,
  ) {}

  async find(request: RowRequest): Promise<RowPage> {
    const { dialect } = this;
    const { timeout = LOOK_TIMEOUT, backwards = false, limit } = request;
    const strip = this.sql.strip(request, await this.places(request));
    const { order } = strip;
    const bounds = request.parked?.bounds;
    if (strip.parts === 0 || bounds?.from === null) return { rows: [], next: null };
    const look: Look = { strip, direction: backwards ? ' desc' : '', deadline: systemClock.monotonic() + timeout };
    const { from, to } = await this.ofAge(request, order, look.deadline);
    const shape = order.map(({ part }) => part);
    const after = request.after === null ? from : readPosition(request.after, shape);
    const behind = after === undefined ? ALWAYS : dialect.compared(order, backwards ? '<' : '>', after);
    const left = allOf([strip.dense, this.range(request, order), behind]);
    const meant = allOf([strip.sparse, this.meant(request)]);
    const isBounded = !strip.isLong || meant.conditions.length === 0;
    const end = isBounded ? undefined : await this.end(look, left);
    const upTo = end === undefined ? ALWAYS : dialect.compared(order, backwards ? '>=' : '<=', end);
    const columns = `${strip.columns}, ${request.published === undefined ? '' : `${BYTES} as bytes, ${IS_REPLAY} as replay, `}`;
    const found = await this.read(look, columns, allOf([left, upTo, meant]), { limit, offset: 0 });
    const last = found.length < limit ? end : positionIn(found.at(-1) ?? [], order);
    const isLast = last === undefined || (to !== undefined && BigInt(last[0] as string) > to);
    return {
      rows: found.map((row) => this.readPageRow(row, request, order)),
      next: isLast ? null : writePosition(last),
    };
  }

  private readPageRow(row: readonly unknown[], { published }: RowRequest, order: Strip['order']): PageRow {
    const position = writePosition(positionIn(row, order));
    const [bytes, isReplay] = row.slice(ROW_LENGTH);
    const archived = { bytes: Number(bytes), isReplay: this.dialect.isTrue(isReplay) };
    return { ...readRow(this.dialect, row), position, ...(published === undefined ? {} : { archived }) };
  }

  /** Where rows begin and end, by the first column of the order. */
  private range({ parked, published }: RowRequest, order: Strip['order']): Conditions {
    const { dialect } = this;
    const name = order[0]?.name;
    const { from, upTo } = parked?.bounds ?? { from: null, upTo: null };
    return allOf([
      from === null ? ALWAYS : condition(`${name} >= ?`, dialect.number(from)),
      upTo === null ? ALWAYS : condition(`${name} <= ?`, dialect.number(upTo)),
      published === undefined ? ALWAYS : condition(`${name} < ?`, dialect.time(published.before)),
      published === undefined || published.from === null
        ? ALWAYS
        : condition(`${name} >= ?`, dialect.time(published.from)),
    ]);
  }

  private meant({ ids, parked, ...filter }: RowRequest): Conditions {
    const { dialect } = this;
    return allOf([
      parked === undefined ? ALWAYS : ofParked(parked),
      ids === undefined ? ALWAYS : dialect.named('id', ids),
      filtered(dialect, filter),
    ]);
  }

  /** Where the look ends; `undefined`: at the end. */
  private async end(look: Look, left: Conditions): Promise<readonly string[] | undefined> {
    const each = Math.max(LEAST_LOOK, Math.ceil(PAGE_LOOK / look.strip.parts));
    const [row] = await this.read(look, '', left, { limit: 1, offset: each - 1 });
    return row && positionIn(row, look.strip.order);
  }

  /** Behind the columns come where the row stands, and what it is ordered by. */
  private read(
    { strip, direction, deadline }: Look,
    columns: string,
    where: Conditions,
    bounds: { readonly limit: number; readonly offset: number },
  ): Promise<Rows> {
    const { order } = strip;
    const positions = order.map((column, n) => `${this.dialect.readBack(column)} as p${n}`);
    const keys = order.map(({ name }, n) => `${name} as k${n}`);
    const part = { columns: columns + [...positions, ...keys].join(', '), where, direction, ...bounds };
    return this.reads.select(deadline, strip.read({ ...part, order: order.map(({ name }) => name) }, bounds.limit));
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

function ofParked({ states, bounds, scheduledUpTo }: NonNullable<RowRequest['parked']>): Conditions {
  return allOf([
    condition(`state in (${[0, ...states.map(stateNumber)].join(', ')})`),
    condition(`(state <> ${DEAD} or died_at is null or died_at <= ?)`, bounds.at),
    scheduledUpTo === undefined ? ALWAYS : condition(`(state <> ${SCHEDULED} or due_at <= ?)`, scheduledUpTo),
  ]);
}

const positionIn = (row: readonly unknown[], { length }: readonly OrderColumn[]): string[] =>
  row
    .slice(-2 * length)
    .slice(0, length)
    .map(String);
