import type { Duration } from '../outbox-message.js';
import { refuse } from '../options/refuse.js';
import type { Change } from '../store/admin-store.js';
import { milliseconds } from '../time/duration.js';
import { actorOf } from './actor.js';
import { checkObject, checkSignal } from './checks.js';

/** How a bulk action runs. */
export interface BulkOptions {
  /** Who acts, for the audit. Default: the user of this process and its machine. */
  by?: string;
  /** Messages of one transaction, 1 to 5,000. Default 500. */
  chunkSize?: number;
  /** Between two chunks, up to 10 minutes. Default none. */
  pause?: Duration;
  /** Ends the action before its next chunk. What was done stays, and the same call goes on. */
  signal?: AbortSignal;
  /** Called after each chunk, and after a look that found nothing and is not the last. What it throws ends the action. */
  progress?: (progress: BulkProgress) => void;
}
/** How `requeue`, `discard` and `cancel` run. */
export interface ChangeOptions extends BulkOptions {
  /** The most messages to change, each counted once for each of its transports. Default: all. It does not go with `ids`. */
  limit?: number;
}
/** An action that is only counted. */
export interface DryRun {
  /** Nothing is changed. */
  dryRun: true;
}
/** What a call would find now, each message counted once for each of its transports. Those that are being sent are counted. */
export interface OperatorCount {
  readonly count: number;
}
export interface BulkProgress {
  /** Messages that were changed, each counted once for each of its transports. */
  readonly done: number;
  /** Those that were found and not changed: they were being sent, or changed by somebody else meanwhile. */
  readonly skipped: number;
  /** How far the action has come, 0 to 1, about. */
  readonly fraction: number;
}
export interface BulkReport extends Pick<BulkProgress, 'done' | 'skipped'> {
  /** Its number in `audit()`. */
  readonly auditId: string;
  /** `aborted`: by its signal, or by `stop()`. */
  readonly outcome: 'done' | 'aborted';
}
/** What `requeue`, `discard` or `cancel` did. The three lists are of `ids`, and empty without these. */
export interface ChangeReport extends BulkReport {
  /** Ids that were changed. After `cancel` only those that no transport will publish, or not the one that the selection names. */
  readonly changed: readonly string[];
  /**
   * Those that are there and stay: ready, being sent, or in a state that the call does not change. After `cancel` also those that
   * another transport still has, and those for which the time to look for them everywhere was too short.
   */
  readonly tooLate: readonly string[];
  /** Those of which nothing waits that all of the selection names. */
  readonly notFound: readonly string[];
  /** Its `limit` ended it: there are more. */
  readonly more: boolean;
}

export interface CheckedOptions {
  readonly actor: string;
  readonly chunkSize: number;
  /** Milliseconds. */
  readonly pause: number;
  readonly limit: number;
  readonly signal: AbortSignal | undefined;
  readonly progress: (progress: BulkProgress) => void;
}

const NAMES = ['by', 'chunkSize', 'pause', 'signal', 'progress', 'dryRun'];
const MAX_CHUNK = 5_000;
const MAX_PAUSE = 600_000;

/** @param also names of options that this action has besides */
export function checkedOptions(
  action: Change | 'replay' | 'purge',
  options: ChangeOptions,
  also: readonly string[] = [],
): CheckedOptions {
  checkObject(action, 'options', options, [...NAMES, ...also]);
  const { by, chunkSize = 500, pause = 0, limit = Infinity, signal, progress = () => undefined } = options;
  if (!Number.isInteger(chunkSize) || chunkSize < 1 || chunkSize > MAX_CHUNK)
    refuse(action, `chunkSize must be a whole number from 1 to ${MAX_CHUNK}`);
  if (limit !== Infinity && (!Number.isInteger(limit) || limit < 1))
    refuse(action, 'limit must be a whole number from 1');
  const ms = milliseconds(pause);
  if (ms === undefined || ms > MAX_PAUSE) refuse(action, `pause must be a duration up to '10m'`);
  checkSignal(action, signal, progress);
  return { actor: actorOf(action, by), chunkSize, pause: ms, limit, signal, progress };
}
