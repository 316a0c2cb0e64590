import type { OutboxHooks } from '../observe/events.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { CleanStore } from '../store/admin-store.js';

export interface CleanReport {
  readonly published: number;
  readonly dead: number;
  readonly dedup: number;
}

/** Rows per statement: short locks, little undo. */
const BATCH = 1_000;

/**
 * Removes what is final and old: archived messages, dead letters and dedup keys, each after its own retention, in bounded
 * batches until nothing is left. Never a pending message of any age. Several instances may run it at once.
 */
export class OutboxCleaner {
  /** @internal */
  constructor(
    /** @internal */ readonly store: CleanStore,
    /** @internal */ readonly hooks: OutboxHooks,
    /** @internal */ readonly retention: ResolvedOptions['retention'],
    /** Whether somebody is to be told of each death before its row goes. @internal */ readonly announces: boolean,
  ) {}

  /** Counts are of committed deletes. When one kind fails the others are still cleaned, then the error is thrown with the counts as `report`. */
  async runOnce(): Promise<CleanReport> {
    const report = { published: 0, dead: 0, dedup: 0 };
    const { published, dead, dedup } = this.retention;
    const errors: unknown[] = [];
    const clean = async (kind: keyof CleanReport, batch: () => Promise<number>): Promise<void> => {
      try {
        for (let deleted = BATCH; deleted >= BATCH; report[kind] += deleted) deleted = await batch();
      } catch (error) {
        errors.push(error);
      }
    };
    await clean('published', () => this.store.cleanArchive(published, BATCH));
    if (dead !== null) await clean('dead', () => this.store.cleanDead(dead, BATCH, this.announces));
    await clean('dedup', () => this.store.cleanDedup(dedup, BATCH));
    if (report.published + report.dead + report.dedup > 0) this.hooks.emit('cleaned', report);
    if (errors.length > 0) throw Object.assign(new AggregateError(errors, 'Cleaning failed in part.'), { report });
    return report;
  }
}
