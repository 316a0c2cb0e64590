import {
  holds,
  type ArchiveLayout,
  type ArchivePartition,
  type PublishedSpan,
} from '../store/partitions/partition-store.js';
import {
  partitionAt,
  partitionNamed,
  periodsWithin,
  SHORTEST,
  MOST_PARTITIONS,
  type OwnPartition,
  type PartitionPeriod,
} from '../store/partitions/period.js';

/** Periods in the past that get a partition where nothing is too old. */
const LOOK_BACK = 500;

export interface PartitionRules {
  readonly period: PartitionPeriod;
  /** Milliseconds. */
  readonly lookahead: number;
  /** Milliseconds; `null`: nothing is too old. */
  readonly retention: number | null;
}

/** What was published before it is too old to be kept; `-Infinity`: nothing is. */
export const keepFrom = ({ retention }: PartitionRules, now: number): number =>
  retention === null ? -Infinity : now - retention;

/** What was published before it gets no partition of its own. */
const lookBack = ({ retention, period }: PartitionRules, now: number): number =>
  retention === null ? now - LOOK_BACK * SHORTEST[period] : now - retention;

/** Where the partitions that are to be there end: behind the next period, at the least. */
export function plannedEnd({ period, lookahead }: PartitionRules, now: number): number {
  const { to } = partitionAt(now, period);
  return Math.max(partitionAt(to, period).to, partitionAt(now + lookahead, period).to);
}

/** Of rows in the catch-all: whether some have a partition that is planned, or are too old. Others have a wrong time, and stay. */
export function isToBeMoved(span: PublishedSpan | undefined, rules: PartitionRules, now: number): boolean {
  if (span === undefined || span.oldest >= plannedEnd(rules, now)) return false;
  return rules.retention !== null || span.newest >= lookBack(rules, now);
}

/** @param aside what waits for its partitions: they may have to begin in the past */
export function missingPartitions(
  layout: ArchiveLayout,
  rules: PartitionRules,
  aside: PublishedSpan | undefined,
): readonly OwnPartition[] {
  const { now, partitions, appendOnly } = layout;
  const oldest = Math.max(Math.min(now, aside?.oldest ?? now), lookBack(rules, now));
  const last = appendOnly ? (partitions.at(-1)?.to ?? -Infinity) : -Infinity;
  const end = plannedEnd(rules, now);
  const missing: OwnPartition[] = [];
  let at = Math.max(partitionAt(oldest, rules.period).from, last);
  while (at < end && missing.length < MOST_PARTITIONS) {
    const fits = partitionFrom(at, rules.period, partitions);
    if (fits !== undefined && fits.to > keepFrom(rules, now)) missing.push(fits);
    at = fits?.to ?? partitions.find((other) => holds(other, at))?.to ?? partitionAt(at, 'hour').to;
  }
  return missing;
}

/** Of this period, or of a shorter one up to where another partition begins. */
function partitionFrom(
  at: number,
  period: PartitionPeriod,
  others: readonly ArchivePartition[],
): OwnPartition | undefined {
  const isFree = ({ from, to }: OwnPartition): boolean =>
    from === at && !others.some((other) => from < other.to && (other.from ?? -Infinity) < to);
  return periodsWithin(period)
    .map((each) => partitionAt(at, each))
    .find(isFree);
}

/** By their bounds. What is in them is looked at before they are dropped. */
export function oldPartitions({ partitions, now }: ArchiveLayout, rules: PartitionRules): readonly ArchivePartition[] {
  return partitions.filter(({ to }) => to <= keepFrom(rules, now));
}

/** A partition whose name does not say what it holds was made by somebody else, and is his. */
export function isOwn({ name, from, to }: ArchivePartition): boolean {
  const named = partitionNamed(name);
  return named !== undefined && named.to === to && (from ?? -Infinity) <= named.from;
}
