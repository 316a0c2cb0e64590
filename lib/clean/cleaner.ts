import { types } from 'node:util';
import type { OutboxHooks } from '../observe/events.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { CleanStore, DedupReport } from '../store/admin-store.js';
import type { OutboxStore } from '../store/outbox-store.js';
import { isCovered } from '../store/partitions/partition-store.js';

export interface CleanReport {
  readonly published: number;
  readonly dead: number;
  readonly dedup: number;
}

/** A pass with limits of its own, in place of the configured retention; leaves the dedup keys alone. */
export interface CleanRequest {
  /** What was published, or died, before this instant goes; by the application's clock. */
  readonly before: Date;
  /** Rows of each kind at most. Default: all. */
  readonly limit?: number;
  /** Dead messages too. Default false. */
  readonly includeDead?: boolean;
}

/** Rows per statement: short locks, little undo. */
const BATCH = 1_000;
const UNCOVERED =
  'the archive is in partitions, and none is for what is published now: it lands in the catch-all, and nothing that is old goes. Run OutboxPartitionMaintainer, in a process that has partitions.period';
/** Dedup keys of messages that still wait, which one pass comes past: the next one goes on behind them. */
const PASSED_BY = 100_000;

/**
 * Removes what is final and old: archived messages, dead letters and dedup keys, each after its own retention, in bounded
 * batches until nothing is left. Never a pending message of any age. Several instances may run it at once.
 */
export class OutboxCleaner {
  /** @internal */ wasUncovered = false;

  /** @internal */
  constructor(
    /** @internal */ readonly store: CleanStore & Pick<OutboxStore, 'partitions'>,
    /** @internal */ readonly hooks: OutboxHooks,
    /** @internal */ readonly retention: ResolvedOptions['retention'],
    /** Whether somebody is to be told of each death before its row goes. @internal */ readonly announces: boolean,
  ) {}

  /**
   * Counts are of committed deletes. When one kind fails the others are still cleaned, then the error is thrown with the counts as `report`.
   * @throws OutboxConfigurationError `INVALID_OPTIONS`
   */
  async runOnce(request?: CleanRequest): Promise<CleanReport> {
    const { published, dead, dedup, limit } = request === undefined ? await this.configured() : requested(request);
    const report = { published: 0, dead: 0, dedup: 0 };
    const errors: unknown[] = [];
    const clean = async (
      kind: keyof CleanReport,
      batch: (size: number) => Promise<number | DedupReport>,
    ): Promise<void> => {
      try {
        let passedBy = 0;
        for (let more = true; more && report[kind] < limit;) {
          const size = Math.min(BATCH, limit - report[kind]);
          const cleaned = await batch(size);
          const { removed, looked } = typeof cleaned === 'number' ? { removed: cleaned, looked: cleaned } : cleaned;
          report[kind] += removed;
          passedBy += looked - removed;
          more = looked >= size && passedBy < PASSED_BY;
        }
      } catch (error) {
        errors.push(error);
      }
    };
    if (published !== null) await clean('published', (size) => this.store.cleanArchive(published, size));
    if (dead !== null) await clean('dead', (size) => this.store.cleanDead(dead, size, this.announces));
    if (dedup !== null) await clean('dedup', (size) => this.store.cleanDedup(dedup, size));
    if (report.published + report.dead + report.dedup > 0) this.hooks.emit('cleaned', report);
    if (errors.length > 0) throw Object.assign(new AggregateError(errors, 'Cleaning failed in part.'), { report });
    return report;
  }

  /**
   * Partitions are dropped as a whole, by their maintainer. One that is known to every process has a partition for what is
   * published now, but for the first minutes of its life: who sees none a second time says so.
   * @internal
   */
  async configured(): Promise<Ages> {
    const layout = await this.store.partitions?.layout();
    const isPartitioned = layout?.kind === 'partitioned';
    const isUncovered = isPartitioned && !isCovered(layout);
    if (isUncovered && this.wasUncovered) this.hooks.emit('warning', { text: UNCOVERED });
    this.wasUncovered = isUncovered;
    return { ...this.retention, ...(isPartitioned && { published: null }), limit: Infinity };
  }
}

/** Milliseconds; `null`: not cleaned. */
interface Ages {
  readonly published: number | null;
  readonly dead: number | null;
  readonly dedup: number | null;
  readonly limit: number;
}

function requested({ before, limit = Infinity, includeDead = false }: CleanRequest): Ages {
  const at = types.isDate(before) ? before.getTime() : Number.NaN;
  if (Number.isNaN(at)) throw refused('before must be a valid Date');
  if (limit !== Infinity && !(Number.isSafeInteger(limit) && limit >= 1))
    throw refused('limit must be a whole number from 1');
  const age = Date.now() - at;
  return { published: age, dead: includeDead ? age : null, dedup: null, limit };
}

const refused = (problem: string): OutboxConfigurationError =>
  new OutboxConfigurationError('INVALID_OPTIONS', `OutboxCleaner.runOnce: ${problem}.`);
