import { refuse } from '../../options/refuse.js';
import {
  checkedOptions,
  type BulkOptions,
  type BulkProgress,
  type BulkReport,
  type CheckedOptions,
} from '../bulk-options.js';

/** How a replay runs. */
export interface ReplayOptions extends Omit<BulkOptions, 'progress'> {
  /**
   * Messages a second, at most: a whole number from 1, or `Infinity`. Default 1,000: what is enqueued meanwhile waits behind what
   * is replayed.
   */
  perSecond?: number;
  /** Called after each chunk, and after a look at the archive that found nothing and is not the last; of a dry run after each look. What it throws ends the replay. */
  progress?: (progress: ReplayProgress) => void;
}
export interface ReplayProgress extends BulkProgress {
  /** Its number in `audit()`, and what `resume` wants. Empty: of a dry run. */
  readonly auditId: string;
}
/** `skipped` counts what earlier replays published, what is parked under its id, and messages of transports that left the options. */
export type ReplayReport = BulkReport;

export interface CheckedReplayOptions extends Omit<CheckedOptions, 'progress'> {
  readonly perSecond: number;
  readonly progress: (progress: ReplayProgress) => void;
}

const DEFAULT_PER_SECOND = 1_000;

export function checkedReplayOptions(options: ReplayOptions): CheckedReplayOptions {
  const checked = checkedOptions('replay', options as BulkOptions, ['perSecond']);
  const { perSecond = DEFAULT_PER_SECOND } = options;
  if (perSecond !== Infinity && (!Number.isSafeInteger(perSecond) || perSecond < 1))
    refuse('replay', 'perSecond must be a whole number from 1, or Infinity');
  // At its own time each chunk is inserted at once: a chunk is no more than a second has.
  return { ...checked, perSecond, chunkSize: Math.min(checked.chunkSize, perSecond) };
}
