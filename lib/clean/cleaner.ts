import { types } from 'node:util';
import type { OutboxHooks } from '../observe/events.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { ResolvedOptions } from '../outbox.options.js';
import type { Cleaning } from '../store/admin-store.js';
import type { Roles } from '../store/outbox-store.js';
import { isCovered } from '../store/partitions/partition-store.js';
import { systemClock, type Clock } from '../time/clock.js';
import { pauseUntil } from '../time/pause-until.js';

export interface CleanReport {
  readonly published: number;
  readonly dead: number;
  readonly dedup: number;
}

/** A pass with limits of its own, in place of the configured retention; leaves the dedup keys and the audit alone. */
export interface CleanRequest {
  /** What was published, or died, before this instant goes; by the application's clock. */
  readonly before: Date;
  /** Rows of each kind at most. Default: all. */
  readonly limit?: number;
  /** Dead messages too; `'only'`: nothing of the archive. Default false. */
  readonly includeDead?: boolean | 'only';
}

/** Rows per statement: short locks, little undo. */
const BATCH = 1_000;
/** Milliseconds between two batches: a machine that slept in the first must not sleep again, nor a pool close its idle connections. */
const MOST_REST = 5_000;
const UNCOVERED =
  'the archive is in partitions, and none is for what is published now: it lands in the catch-all, and old partitions are not dropped. Run OutboxPartitionMaintainer, in a process that has partitions.period';
/** Dedup keys of messages that still wait, which one pass comes past: the next one goes on behind them. */
const PASSED_BY = 100_000;

/**
 * Removes what is final and old: archived messages, dead letters, dedup keys and the audit of operators' actions, each after its
 * own retention, in bounded batches until nothing is left. Never a pending message of any age. Several instances may run it at once.
 */
export class OutboxCleaner {
  /** @internal */ wasUncovered = false;

  /** @internal */
  constructor(
    /** @internal */ readonly store: Roles<'cleaner' | 'partitions'>,
    /** @internal */ readonly hooks: OutboxHooks,
    /** @internal */ readonly retention: ResolvedOptions['retention'],
    /** Whether somebody is to be told of each death before its row goes. @internal */ readonly announces: boolean,
    /** @internal */ readonly clock: Clock = systemClock,
  ) {}

  /**
   * Counts are of committed deletes, without those of the audit. Between two batches it rests for as long as the first of them took.
   * When one kind fails the others are still cleaned, then the error is thrown with the counts as `report`.
   * @param options.signal ends the pass after the batch in hand; what is left is for the next one
   * @throws OutboxConfigurationError `INVALID_OPTIONS`
   */
  async runOnce(request?: CleanRequest, { signal }: { readonly signal?: AbortSignal } = {}): Promise<CleanReport> {
    const { published, dead, dedup, audit, limit } =
      request === undefined ? await this.configured() : requested(request);
    const counts = { published: 0, dead: 0, dedup: 0, audit: 0 };
    const errors: unknown[] = [];
    const clean = async (kind: keyof typeof counts, what: Cleaning, age: (() => number) | null): Promise<void> => {
      if (age === null) return;
      try {
        let passedBy = 0;
        for (let more = true; more && counts[kind] < limit && signal?.aborted !== true;) {
          const size = Math.min(BATCH, limit - counts[kind]);
          const began = this.clock.monotonic();
          const { removed, looked } = await this.store.cleaner.clean(what, age(), size);
          counts[kind] += removed;
          passedBy += looked - removed;
          more = looked >= size && passedBy < PASSED_BY;
          if (more && counts[kind] < limit)
            await pauseUntil(signal, this.clock, Math.min(MOST_REST, this.clock.monotonic() - began)); // gives the disk to others
        }
      } catch (error) {
        errors.push(error);
      }
    };
    await clean('published', 'archive', published);
    await clean('dead', this.announces ? 'announced' : 'dead', dead);
    await clean('dedup', 'dedup', dedup);
    await clean('audit', 'audit', audit);
    const report = { published: counts.published, dead: counts.dead, dedup: counts.dedup };
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
    const { published, dead, dedup, audit } = this.retention;
    const after = (age: number | null) => (age === null ? null : () => age);
    return {
      published: isPartitioned ? null : after(published),
      dead: after(dead),
      dedup: after(dedup),
      audit: after(audit),
      limit: Infinity,
    };
  }
}

/** Milliseconds, asked for each batch; `null`: not cleaned. */
interface Ages {
  readonly published: (() => number) | null;
  readonly dead: (() => number) | null;
  readonly dedup: (() => number) | null;
  readonly audit: (() => number) | null;
  readonly limit: number;
}

function requested({ before, limit = Infinity, includeDead = false }: CleanRequest): Ages {
  const at = types.isDate(before) ? before.getTime() : Number.NaN;
  if (Number.isNaN(at)) throw refused('before must be a valid Date');
  if (limit !== Infinity && !(Number.isSafeInteger(limit) && limit >= 1))
    throw refused('limit must be a whole number from 1');
  if (![true, false, 'only'].includes(includeDead)) throw refused("includeDead must be true, false or 'only'");
  const age = (): number => Date.now() - at;
  return {
    published: includeDead === 'only' ? null : age,
    dead: includeDead === false ? null : age,
    dedup: null,
    audit: null,
    limit,
  };
}

const refused = (problem: string): OutboxConfigurationError =>
  new OutboxConfigurationError('INVALID_OPTIONS', `OutboxCleaner.runOnce: ${problem}.`);
