import { errorText } from '../observe/redact/error-text.js';
import type { AuditOutcome } from '../store/operator-store.js';
import type { BulkReport, CheckedOptions } from './bulk-options.js';
import { systemClock } from '../time/clock.js';

/**
 * Writes into the audit how an action ends, and passes on what it throws.
 * @param end writes it; false: the action had ended already
 * @param work false: it ended before all was done
 */
export async function audited(
  end: (outcome: AuditOutcome, error: string | null) => Promise<boolean>,
  work: () => Promise<boolean>,
): Promise<BulkReport['outcome']> {
  try {
    const outcome = (await work()) ? 'done' : 'aborted';
    return (await end(outcome, null)) ? outcome : 'aborted';
  } catch (error) {
    await end('failed', errorText(error)).catch(() => undefined); // the database may be what failed
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
   * @param fraction of the action that is done with these; 1: there is nothing behind them
   * @param write changes them; `undefined`: the action has ended
   * @returns `false`: the action has ended, or its limit is reached
   */
  async each<T>(
    rows: readonly T[],
    fraction: number,
    write: (some: readonly T[]) => Promise<{ readonly done: number } | undefined>,
  ): Promise<boolean> {
    const { chunkSize, pause, limit, signal, progress } = this.options;
    // A look that found nothing, with more to look at: whoever waits hears that it goes on.
    if (rows.length === 0 && fraction < 1) progress({ done: this.done, skipped: this.skipped, fraction });
    for (let from = 0; from < rows.length;) {
      if ((this.more = this.done >= limit)) return false;
      if (this.chunks++ > 0) await rest(pause, signal);
      if (this.isAborted) return false;
      const some = rows.slice(from, from + Math.min(chunkSize, limit - this.done));
      from += some.length;
      const changed = await write(some);
      if (changed === undefined) return false;
      this.done += changed.done;
      this.skipped += some.length - changed.done;
      if (changed.done > 0) this.changed();
      progress({ done: this.done, skipped: this.skipped, fraction });
    }
    return !this.isAborted;
  }
}

/** Until the time is over, or the action is to end. */
export async function rest(ms: number, signal: AbortSignal | undefined): Promise<void> {
  if (ms <= 0 || signal?.aborted === true) return;
  await new Promise<void>((resolve) => {
    const end = (): void => {
      cancel();
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const cancel = systemClock.after(ms, end);
    signal?.addEventListener('abort', end);
  });
}
