/** How much time one partition holds, in UTC whatever zone a session or a process has. */
export type PartitionPeriod = 'hour' | 'day' | 'month';

/** From the longest to the shortest: what fits behind a partition of another period is looked for in this order. */
const PERIODS = ['month', 'day', 'hour'] as const;
/** Partitions that one pass makes, and that may be there by the options. */
export const MOST_PARTITIONS = 1_000;
/** Digits of a name: `p202503`, `p20250309`, `p2025030917`. */
const DIGITS: Readonly<Record<PartitionPeriod, number>> = { month: 6, day: 8, hour: 10 };
const HOUR = 3_600_000;
/** Milliseconds for which partitions are made ahead, where nobody says otherwise; and the next one always. */
export const LOOKAHEAD: Readonly<Record<PartitionPeriod, number>> = {
  hour: 48 * HOUR,
  day: 30 * 24 * HOUR,
  month: 90 * 24 * HOUR,
};
export const SHORTEST: Readonly<Record<PartitionPeriod, number>> = {
  hour: HOUR,
  day: 24 * HOUR,
  month: 28 * 24 * HOUR,
};

/** A partition of ours: its name says what it holds. */
export interface OwnPartition {
  readonly name: string;
  readonly from: number;
  readonly to: number;
}

export function periodStart(at: number, period: PartitionPeriod): number {
  const time = new Date(at);
  const [year, month] = [time.getUTCFullYear(), time.getUTCMonth()];
  if (period === 'month') return Date.UTC(year, month);
  return period === 'day' ? Date.UTC(year, month, time.getUTCDate()) : Math.floor(at / HOUR) * HOUR;
}

export function partitionAt(at: number, period: PartitionPeriod): OwnPartition {
  const from = periodStart(at, period);
  const time = new Date(from);
  const to =
    period === 'month'
      ? Date.UTC(time.getUTCFullYear(), time.getUTCMonth() + 1)
      : from + (period === 'day' ? 24 * HOUR : HOUR);
  return { name: `p${time.toISOString().replace(/\D/g, '').slice(0, DIGITS[period])}`, from, to };
}

/** `undefined`: the name is none of ours. */
export function partitionNamed(name: string): OwnPartition | undefined {
  const period = PERIODS.find((each) => name.length === DIGITS[each] + 1);
  const [, year, month, day = '01', hour = '00'] = /^p(\d{4})(\d{2})(\d{2})?(\d{2})?$/.exec(name) ?? [];
  if (period === undefined || year === undefined) return undefined;
  const at = Date.UTC(Number(year), Number(month) - 1, Number(day), Number(hour));
  const partition = partitionAt(at, period);
  return partition.name === name ? partition : undefined; // no month 13, no 30 February
}

/** The period, and those that are shorter. */
export function periodsWithin(period: PartitionPeriod): readonly PartitionPeriod[] {
  return PERIODS.slice(PERIODS.indexOf(period));
}
