import { systemClock, type Clock } from '../../../time/clock.js';
import { isDamage } from '../../database-errors.js';
import type { Statement } from '../../sql.js';
import { isNoText, type RowsAs } from '../columns.js';

/**
 * How rows are read. A payload up to 64 KiB comes with its row, and one that is damaged fails the statement for all that it
 * asks for: then, and for a while, payloads stay behind as if all were large, and are read when their turn comes.
 */
export class RowsRead {
  /** Until when (monotonic), by what is read. */
  private readonly apartUntil = new Map<number | 'letters', number>();

  constructor(readonly clock: Clock = systemClock) {}

  /**
   * @param what a transport, or the dead letters of all
   * @param work runs again after an error that speaks of a payload
   * @param again whether it may
   */
  async read<T>(what: number | 'letters', work: (as: RowsAs) => Promise<T>, again = (): boolean => true): Promise<T> {
    let as: RowsAs = this.isApart(what) ? 'apart' : 'text';
    for (;;) {
      try {
        return await work(as);
      } catch (error) {
        if (as === 'apart' || !again()) throw error;
        if (as === 'text' && isNoText(error)) as = 'bytes';
        else if (isDamage(error)) {
          this.apartUntil.set(what, this.clock.monotonic() + APART_FOR);
          as = 'apart';
        } else throw error;
      }
    }
  }

  private isApart(what: number | 'letters'): boolean {
    const until = this.apartUntil.get(what);
    if (until === undefined) return false;
    return this.clock.monotonic() < until || !this.apartUntil.delete(what);
  }
}

export const eachWay = <T = Statement>(build: (as: RowsAs) => T): Record<RowsAs, T> => ({
  text: build('text'),
  bytes: build('bytes'),
  apart: build('apart'),
});

/** Milliseconds. Then one statement may fail again; what is known to be damaged is not read with others but under row locks. */
const APART_FOR = 60_000;
