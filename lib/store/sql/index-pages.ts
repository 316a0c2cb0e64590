import type { PositionPart } from '../position.js';
import { ALWAYS, allOf, whereOf, type Conditions } from './conditions.js';
import type { Dialect } from './dialect.js';

/** Reads that the server ends by itself when their time is over. */
export interface TimedSelects {
  /**
   * @param rest what follows `select`
   * @param deadline monotonic, in milliseconds
   * @throws OutboxError `TIMEOUT`
   */
  select(deadline: number, rest: string, values: readonly unknown[]): Promise<readonly (readonly unknown[])[]>;
}

export interface OrderColumn {
  readonly name: string;
  readonly part: PositionPart;
}
/** Rows of a table in the order of one of its indexes. */
export interface IndexedRows {
  /** The table as `o`, and what makes the server read it by the index. */
  readonly from: string;
  /** What is read of each row. */
  readonly columns: readonly string[];
  readonly order: readonly OrderColumn[];
}
export interface PageRequest {
  /** Behind this row; `undefined`: from the beginning. */
  readonly after: readonly string[] | undefined;
  /** What the index alone tells. */
  readonly range: Conditions;
  /** What else must hold of a row. */
  readonly meant: Conditions;
  /** Rows of a page. */
  readonly limit: number;
  /** Entries of the index that a page looks at; `undefined`: all of the range. */
  readonly look: number | undefined;
  readonly backwards?: boolean;
}
export interface IndexPage {
  readonly rows: readonly (readonly unknown[])[];
  /** Of each row where it stands. */
  readonly positions: readonly (readonly string[])[];
  /** Where to go on; `undefined`: that was the last page. */
  readonly next: readonly string[] | undefined;
}

/**
 * Reads an index page by page: first where a bounded number of its entries ends, then those rows up to there that are meant. So a
 * page is over in a bounded time, whatever is meant.
 */
export async function indexPage(
  reads: TimedSelects,
  dialect: Dialect,
  { from, columns, order }: IndexedRows,
  { after, range, meant, limit, look, backwards = false }: PageRequest,
  deadline: number,
): Promise<IndexPage> {
  const sorted = ` order by ${order.map(({ name }) => `${name}${backwards ? ' desc' : ''}`).join(', ')} limit ?`;
  const position = order.map((column) => dialect.readBack(column)).join(', ');
  const behind = after === undefined ? ALWAYS : dialect.compared(order, backwards ? '<' : '>', after);
  const left = allOf([range, behind]);
  const select = (what: string, of: Conditions, more: string, ...values: readonly unknown[]) =>
    reads.select(deadline, `${what} from ${from}${whereOf(of)}${sorted}${more}`, [...of.values, ...values]);
  const end = look === undefined ? undefined : (await select(position, left, ' offset ?', 1, look - 1))[0]?.map(String);
  const upTo = end === undefined ? ALWAYS : dialect.compared(order, backwards ? '>=' : '<=', end);
  const found = await select([...columns, position].join(', '), allOf([left, upTo, meant]), '', limit);
  const positions = found.map((row) => row.slice(-order.length).map(String));
  return {
    rows: found.map((row) => row.slice(0, -order.length)),
    positions,
    next: found.length < limit ? end : positions.at(-1),
  };
}
