import { lookDeadline } from '../../find-by-id.js';
import { PAGE_LOOK, type RowFilter, type RowPage, type RowRequest } from '../../inspect-store.js';
import type { StoreSettings, TableNames } from '../../names.js';
import { readPosition, writePosition } from '../../position.js';
import type { MysqlLookup } from './lookup.js';
import { readRow, ROW_LENGTH } from './rows.js';
import type { TimedSelect } from './select.js';
import { compared, stripOf, type Strip } from './strips.js';
import { ALWAYS, type Conditions } from '../../sql/conditions.js';
import { textConditions } from './text-conditions.js';

/** Rows that a look takes from each part at least. */
const LEAST_LOOK = 50;
/** Milliseconds: by how much clocks may differ, and a transaction may be older than what was committed before it. */
const SLACK = 3_600_000;

/**
 * Rows of one state, page by page: first up to where a bounded number of index entries leads, then those up to there that
 * the filter means.
 */
export class MysqlPages {
  constructor(
    readonly select: TimedSelect,
    readonly names: TableNames,
    readonly settings: StoreSettings,
    readonly lookup: Pick<MysqlLookup, 'numbersBetween' | 'bucketOf' | 'transportIds'>,
  ) {}

  async page(request: RowRequest): Promise<RowPage> {
    const { state, key, transport } = request;
    const transports = transport === undefined ? await this.lookup.transportIds() : [transport];
    const bucket = key === undefined ? undefined : await this.lookup.bucketOf(key);
    const strip = stripOf(state, request, this.names, { transports, bucket });
    if (strip.parts.length === 0) return { rows: [], next: null };
    const deadline = lookDeadline();
    const { from, to } = await this.ofAge(request, deadline);
    const shape = strip.order.map(({ part }) => part);
    const after = request.after === null ? from : readPosition(request.after, shape);
    const behind = after === undefined ? ALWAYS : compared(strip, '>', after);
    const end = strip.isLong ? await this.end(strip, behind, deadline) : undefined;
    const upTo = end === undefined ? ALWAYS : compared(strip, '<=', end);
    const meant = [behind, upTo, filterOf(request, strip)];
    const rows = await this.rows(strip, meant, request.limit, deadline);
    const last =
      rows.length < request.limit
        ? end
        : rows
            .at(-1)
            ?.slice(ROW_LENGTH, ROW_LENGTH + strip.order.length)
            .map(String);
    const isLast = last === undefined || (to !== undefined && BigInt(last[0] as string) > to);
    return { rows: rows.map(readRow), next: isLast ? null : writePosition(last) };
  }

  /** @internal Where the look ends; `undefined`: at the end. */
  async end({ parts, order }: Strip, behind: Conditions, deadline: number): Promise<string[] | undefined> {
    const names = order.map(({ name }) => name).join(', ');
    const keys = keysOf(order);
    const each = Math.max(LEAST_LOOK, Math.ceil(PAGE_LOOK / parts.length));
    const looks = parts.map(
      ({ from, conditions }) =>
        `(select ${order.map(({ name }, n) => `${name} as k${n}`).join(', ')} from ${from}${where(conditions, behind.conditions)}
          order by ${names} limit 1 offset ${each - 1})`,
    );
    const values = parts.flatMap((part) => [...part.values, ...behind.values]);
    const rest = `${keys} from (${looks.join(' union all ')}) f order by ${keys} limit 1`;
    return (await this.select.select(deadline, rest, values))[0]?.map(String);
  }

  /** @internal */ rows(
    { parts, order, columns }: Strip,
    meant: readonly Conditions[],
    limit: number,
    deadline: number,
  ) {
    const names = order.map(({ name }) => name).join(', ');
    const more = meant.flatMap(({ conditions }) => conditions);
    const looks = parts.map(
      ({ from, conditions }) =>
        `(select ${columns}, ${order.map(({ name }, n) => `${name} as k${n}`).join(', ')} from ${from}${where(conditions, more)}
          order by ${names} limit ?)`,
    );
    const values = parts.flatMap((part) => [...part.values, ...meant.flatMap((one) => one.values), limit]);
    const rest = `* from (${looks.join(' union all ')}) f order by ${keysOf(order)} limit ?`;
    return this.select.select(deadline, rest, [...values, limit]);
  }

  /** @internal Of what is ready the numbers between which rows of this age are, with room for transactions that overlap. */
  async ofAge(request: RowRequest, deadline: number): Promise<{ from?: string[]; to?: bigint }> {
    const { state, olderThan, youngerThan } = request;
    if (state !== 'ready' || (olderThan ?? youngerThan) === undefined) return {};
    const now = Date.now();
    const times = { from: now - (youngerThan ?? now) - SLACK, to: now - (olderThan ?? -SLACK) + SLACK };
    const range = await this.lookup.numbersBetween(times, deadline);
    return range === undefined ? {} : { from: [String(range.from - 1n)], to: range.to };
  }
}

const keysOf = (order: Strip['order']): string => order.map((_, n) => `k${n}`).join(', ');

function where(...lists: readonly (readonly string[])[]): string {
  const all = lists.flat();
  return all.length === 0 ? '' : ` where ${all.join(' and ')}`;
}

function filterOf(filter: RowFilter, { isLong }: Pick<Strip, 'isLong'>): Conditions {
  const { key, topic, type, olderThan, youngerThan } = filter;
  const texts = textConditions({ topic, type, ...(isLong ? { key } : {}) });
  const age = 'utc_timestamp(6) - interval ? microsecond';
  const ages = [
    ...(olderThan === undefined ? [] : [[`created_at <= ${age}`, olderThan * 1_000] as const]),
    ...(youngerThan === undefined ? [] : [[`created_at >= ${age}`, youngerThan * 1_000] as const]),
  ];
  return {
    conditions: [...texts.conditions, ...ages.map(([condition]) => condition)],
    values: [...texts.values, ...ages.map(([, value]) => value)],
  };
}
