import { OutboxError } from '../outbox.errors.js';
import { systemClock } from '../time/clock.js';
import { latestOf, LOOK_TIMEOUT, QUICK_LOOK, type RowsById, type StoredRow } from './inspect-store.js';
import { CLOSE, WIDE, writtenTogether, type Reach } from './seek-time.js';

/** How a store looks for ids in a table without an index of them. Each gives `undefined` when its time is over. */
export interface IdTable {
  /** Looks through the whole table. */
  all(ids: readonly string[], deadline: number): Promise<StoredRow[] | undefined>;
  /** Looks where rows stand that were written at the times in these ids, which are near each other. */
  near(ids: readonly string[], reach: Reach, deadline: number): Promise<StoredRow[] | undefined>;
  /** What is left to look at when the ids were not near. Default: `all`. */
  rest?(ids: readonly string[], deadline: number): Promise<StoredRow[] | undefined>;
}
/** A table that has none. */
export const NOWHERE: IdTable = { all: async () => [], near: async () => [] };
/** In the order in which messages move: none slips through. */
export interface IdTables {
  readonly ready: IdTable;
  /** It has an index of ids. */
  readonly parked: Pick<IdTable, 'all'>;
  readonly archived: IdTable;
  /** How many transports a message may have. */
  transports(): Promise<number>;
}

/** Milliseconds for which a table that was too long to be looked through is taken for too long. */
const TOO_LONG_FOR = 60_000;

/**
 * Messages by id. A small table is looked through. In a large one the time in an id leads to the place, within seconds of it and
 * then within minutes. What is nowhere near is looked for in all of both tables, for as long as there is time.
 */
export class IdSearch {
  private readonly tooLong = new Map<IdTable, number>();

  constructor(
    readonly tables: IdTables,
    /** Milliseconds in which a small table is looked through. */
    readonly small = QUICK_LOOK,
  ) {}

  async find(ids: readonly string[]): Promise<RowsById> {
    const { ready, archived } = this.tables;
    const seen: StoredRow[] = [];
    const whole = new Set<IdTable>();
    let isParkedWhole = true;
    const pass = async (wanted: readonly string[], look: (table: IdTable) => Promise<StoredRow[]>): Promise<void> => {
      if (wanted.length === 0 || whole.size === 2) return;
      seen.push(...(whole.has(ready) ? [] : await look(ready)));
      const parked = await this.tables.parked.all(wanted, lookDeadline());
      isParkedWhole &&= parked !== undefined;
      seen.push(...(parked ?? []), ...(whole.has(archived) ? [] : await look(archived)));
    };
    const missing = (): string[] => without(ids, seen);

    const deadline = lookDeadline();
    await pass(ids, async (table) => {
      const rows = await this.quick(table, ids);
      if (rows !== undefined) whole.add(table);
      return rows ?? near(table, ids, CLOSE, deadline);
    });
    if (whole.size === 2) return { rows: latestOf(seen), isComplete: isParkedWhole };
    const transports = await this.tables.transports();
    const wide = transports === 1 ? missing() : ids;
    await pass(wide, (table) => near(table, wide, WIDE, deadline));
    const left = missing();
    await pass(left, async (table) => {
      const rows = await (table.rest ?? table.all).call(table, left, lookDeadline());
      if (rows !== undefined) whole.add(table);
      return rows ?? [];
    });
    // Nobody looked everywhere for what was found: another transport may have it far from there.
    const isEverywhere = left.length === 0 || whole.size === 2;
    const isAll = left.length === ids.length || transports === 1;
    return { rows: latestOf(seen), isComplete: isParkedWhole && isEverywhere && isAll };
  }

  private async quick(table: IdTable, ids: readonly string[]): Promise<StoredRow[] | undefined> {
    const now = systemClock.monotonic();
    if ((this.tooLong.get(table) ?? -Infinity) > now) return undefined;
    const rows = await table.all(ids, now + this.small);
    if (rows === undefined) this.tooLong.set(table, now + TOO_LONG_FOR);
    return rows;
  }
}

async function near(table: IdTable, ids: readonly string[], reach: Reach, deadline: number): Promise<StoredRow[]> {
  const rows: StoredRow[] = [];
  for (const together of writtenTogether(ids)) rows.push(...((await table.near(together, reach, deadline)) ?? []));
  return rows;
}

function without(ids: readonly string[], rows: readonly StoredRow[]): string[] {
  const found = new Set(rows.map(({ id }) => id));
  return ids.filter((id) => !found.has(id));
}

export const lookDeadline = (): number => systemClock.monotonic() + LOOK_TIMEOUT;

export function outOfTime(within = LOOK_TIMEOUT): OutboxError {
  return new OutboxError('TIMEOUT', `The database has not answered within ${within / 1_000} s.`, {
    hint: 'Ask again, for less: name the transport, the state or the key.',
  });
}
