import type { Duration } from '../../outbox-message.js';
import { refuse } from '../../options/refuse.js';
import { milliseconds } from '../../time/duration.js';
import { checkObject, checkSignal } from '../checks.js';

/** How long `drain` waits, and for what. */
export interface DrainOptions {
  /** Of this one alone. Default: all that were ever registered. */
  transport?: string;
  /** How long it waits, up to 24 days. 0: it looks once. Default 5 minutes. */
  timeout?: Duration;
  /** Ends the wait. Nothing was changed. */
  signal?: AbortSignal;
  /** Called after each look, and twice a second while it waits. What it throws ends the call. */
  progress?: (progress: DrainProgress) => void;
}
export interface DrainProgress {
  /** Of what was there at the beginning, each message counted once for each of its transports. */
  readonly left: number;
  /** `false`: there are more, or not everything was looked at yet. */
  readonly isExact: boolean;
  /** How far it has come, 0 to 1, about. */
  readonly fraction: number;
  /** Why this look failed. The next one follows; the other figures are those of the last look that did not. */
  readonly error: string | null;
}

export interface CheckedDrain {
  readonly transport: string | undefined;
  /** Milliseconds. */
  readonly timeout: number;
  readonly signal: AbortSignal | undefined;
  readonly progress: (progress: DrainProgress) => void;
}

const NAMES = ['transport', 'timeout', 'signal', 'progress'];
const DEFAULT_TIMEOUT = 300_000;
const MAX_TIMEOUT = 24 * 86_400_000;

/** @throws OutboxMessageError `INVALID_MESSAGE` */
export function checkedDrain(options: DrainOptions): CheckedDrain {
  checkObject('drain', 'options', options, NAMES);
  const { transport, timeout = DEFAULT_TIMEOUT, signal, progress = () => undefined } = options;
  const ms = milliseconds(timeout);
  if (ms === undefined || ms > MAX_TIMEOUT) refuse('drain', `timeout must be a duration up to '24d'`);
  checkSignal('drain', signal, progress);
  return { transport, timeout: ms, signal, progress };
}
