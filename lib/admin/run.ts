import { errorText } from '../observe/redact/error-text.js';
import type { OperatorStore } from '../store/operator-store.js';
import type { BulkReport, CheckedOptions } from './bulk-options.js';
import { systemClock } from '../time/clock.js';
import { pauseUntil } from '../time/pause-until.js';

/**
 * Writes into the audit how an action ends, and passes on what it throws.
 * @param work false: it ended before all was done
 * @param known its filter as this call has it; it is ended only while it has that
 */
export async function audited(
  operators: OperatorStore,
  auditId: string,
  work: () => Promise<boolean>,
  known: () => { readonly from?: string } = () => ({}),
): Promise<BulkReport['outcome']> {
  try {
    const outcome = (await work()) ? 'done' : 'aborted';
    const ended = await operators.step(auditId, { do: 'end', outcome, error: null, ...known() });
    return ended === undefined ? 'aborted' : outcome;
  } catch (error) {
    const failed = { do: 'end', outcome: 'failed', error: errorText(error), ...known() } as const;
    await operators.step(auditId, failed).catch(() => undefined); // the database may be what failed
    throw error;
  }
}

/** Rows that an action changes chunk by chunk, with its pauses, its signal and its progress. */
export class ChunkedRows {
  done = 0;
  skipped = 0;
  /** The limit left out a row. */
  more = false;
  private chunks = 0;

  constructor(
    readonly options: CheckedOptions,
    /** A chunk changed something. */
    readonly changed: () => void = () => undefined,
  ) {}

  get isAborted(): boolean {
    return this.options.signal?.aborted === true;
  }

  /**
   * @param fractionOf how much of the action is done with some of them; 1: there is nothing behind them
   * @param write changes them; `undefined`: the action has ended
   * @param most how many of them one chunk may have
   * @returns `false`: the action has ended, or its limit is reached
   */
  async each<T>(
    rows: readonly T[],
    fractionOf: (some: readonly T[]) => number,
    write: (some: readonly T[]) => Promise<{ readonly done: number } | undefined>,
    most = ({ length }: readonly T[]): number => length,
  ): Promise<boolean> {
    const { chunkSize, pause, limit, signal, progress } = this.options;
    // A look that found nothing, with more to look at: whoever waits hears that it goes on.
    if (rows.length === 0 && fractionOf(rows) < 1)
      progress({ done: this.done, skipped: this.skipped, fraction: fractionOf(rows) });
    for (let from = 0; from < rows.length;) {
      if ((this.more = this.done >= limit)) return false;
      if (this.chunks++ > 0) await rest(pause, signal);
      if (this.isAborted) return false;
      const next = rows.slice(from, from + Math.min(chunkSize, limit - this.done));
      const some = next.slice(0, most(next));
      from += some.length;
      const changed = await write(some);
      if (changed === undefined) return false;
      this.done += changed.done;
      this.skipped += some.length - changed.done;
      if (changed.done > 0) this.changed();
      progress({ done: this.done, skipped: this.skipped, fraction: fractionOf(some) });
    }
    return !this.isAborted;
  }
}

/** Until the time is over, or the action is to end. */
export const rest = (ms: number, signal: AbortSignal | undefined): Promise<void> | undefined =>
  ms <= 0 ? undefined : pauseUntil(signal, systemClock, ms);
