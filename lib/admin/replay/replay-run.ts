import { bucketOf } from '../../message/bucket-of.js';
import { countFitting } from '../../message/fitting-by-bytes.js';
import { withReplayHeader } from '../../message/replay-header.js';
import type { NewMessage } from '../../outbox-message.js';
import type { ResolvedOptions } from '../../outbox.options.js';
import type { InspectStore, PageRow, RowPage, RowRequest } from '../../store/inspect-store.js';
import type { ArchivedMessage, OperatorStore } from '../../store/operator-store.js';
import { systemClock } from '../../time/clock.js';
import { archivePages, whileWhole, type Layouts } from '../archive-pages.js';
import { audited, rest } from '../run.js';
import { Pace } from './pace.js';
import type { CheckedReplayOptions, ReplayReport } from './replay-options.js';
import { planText, type ReplayPlan } from './replay-plan.js';

export interface ReplaySources {
  readonly operators: OperatorStore;
  readonly inspect: Pick<InspectStore, 'bounds' | 'find'>;
  readonly partitions: Layouts | undefined;
  readonly options: Pick<ResolvedOptions, 'buckets' | 'ordering' | 'transports'>;
  /** Transports by number, also those that left the options. */
  readonly names: ReadonlyMap<number, string>;
  /** Messages are ready. */
  changed(): void;
}
export interface ReplayAction {
  readonly plan: ReplayPlan;
  readonly filter: Omit<RowRequest, 'state' | 'after' | 'limit'>;
}

/** Bytes that are read and inserted at once, about. */
const CHUNK_BYTES = 16 * 1024 * 1024;

/** What the filter means, in the order of the publishing. */
export function replayed(
  { inspect, partitions }: ReplaySources,
  { plan, filter }: ReplayAction,
): AsyncGenerator<RowPage> {
  return archivePages(inspect, partitions, 'replay', { ...filter, after: plan.after });
}

/** Whether a row is published again: not by a process that has no such transport, and not what a replay published. */
export function isReplayed({ names, options }: ReplaySources, { conditions }: ReplayPlan) {
  return ({ transport, archived }: PageRow): boolean =>
    (conditions.includeReplays || archived?.isReplay !== true) && options.transports.has(names.get(transport) ?? '');
}

/**
 * Each chunk inserts messages and writes down how far it came, in one transaction. So a replay goes on where it ended, however
 * it ended, and of two calls that run it one writes nothing more.
 */
export async function runReplay(
  sources: ReplaySources,
  auditId: string,
  action: ReplayAction,
  options: CheckedReplayOptions,
): Promise<ReplayReport> {
  const run = new ReplayRun(sources, auditId, action, options);
  const outcome = await audited(
    (...ended) => sources.operators.end(auditId, ...ended, run.state),
    () => run.all(),
  );
  return { auditId, done: run.done, skipped: run.skipped, outcome };
}

class ReplayRun {
  done = 0;
  skipped = 0;
  chunks = 0;
  /** As the row of the audit has it. */
  state: string;
  readonly pace: Pace;
  readonly isMeant: (row: PageRow) => boolean;
  /** Milliseconds of the first row's publishing. */
  begin: number | undefined;
  /** The last fraction that was told. */
  reached = 0;

  constructor(
    readonly sources: ReplaySources,
    readonly auditId: string,
    readonly action: ReplayAction,
    readonly options: CheckedReplayOptions,
  ) {
    this.state = planText(action.plan);
    this.pace = new Pace(options.perSecond, systemClock);
    this.isMeant = isReplayed(sources, action.plan);
  }

  /** @returns `false`: it ended before all was done */
  async all(): Promise<boolean> {
    for await (const { rows, next } of replayed(this.sources, this.action)) {
      if (rows.length === 0 && next !== null) this.say(this.reached);
      for (let from = 0; from < rows.length;) {
        const chunk = this.chunkOf(rows.slice(from, from + this.options.chunkSize));
        from += chunk.length;
        if (!(await this.write(chunk, next === null && from === rows.length))) return false;
      }
      if (this.options.signal?.aborted === true) return false;
    }
    return true;
  }

  private chunkOf(rows: readonly PageRow[]): readonly PageRow[] {
    return rows.slice(
      0,
      countFitting(rows, CHUNK_BYTES, (row) => (this.isMeant(row) ? (row.archived?.bytes ?? 0) : 0)),
    );
  }

  private async write(rows: readonly PageRow[], isLast: boolean): Promise<boolean> {
    const { operators, partitions } = this.sources;
    const { pause, signal } = this.options;
    const meant = rows.filter(this.isMeant).map(({ position }) => position);
    await rest(Math.max(this.chunks++ > 0 ? pause : 0, this.pace.turn(meant.length)), signal);
    if (signal?.aborted === true) return false;
    const read = (): Promise<readonly ArchivedMessage[]> => operators.archived(meant);
    const isComplete = ({ length }: { length: number }): boolean => length === meant.length;
    const found = meant.length === 0 ? [] : await whileWhole(partitions, 'replay', read, isComplete);
    const last = rows.at(-1) as PageRow;
    const to = planText({ ...this.action.plan, after: last.position });
    const messages = found.map((message) => this.newMessage(message));
    const step = { do: 'insert', messages, skipped: rows.length - found.length, from: this.state, to } as const;
    const written = await operators.step(this.auditId, step);
    if (written === undefined) return false;
    this.state = to;
    this.tell(rows, written.done, isLast);
    return true;
  }

  private tell(rows: readonly PageRow[], written: number, isLast: boolean): void {
    this.done += written;
    this.skipped += rows.length - written;
    if (written > 0) this.sources.changed();
    this.say(isLast ? 1 : this.fraction(rows));
  }

  /** Also of a look that found nothing: whoever waits hears that it goes on. */
  private say(fraction: number): void {
    this.reached = fraction;
    const { auditId, done, skipped } = this;
    this.options.progress({ auditId, done, skipped, fraction });
  }

  /** How much of the time lies behind. */
  private fraction(rows: readonly PageRow[]): number {
    const { from, before } = this.action.plan;
    const timeOf = (row: PageRow | undefined): number => row?.publishedAt?.getTime() ?? 0;
    this.begin ??= from?.getTime() ?? timeOf(rows[0]);
    const all = before.getTime() - this.begin;
    return all <= 0 ? 1 : Math.min(1, Math.max(0, (timeOf(rows.at(-1)) - this.begin) / all));
  }

  /** Its bucket is that of today: their number may have changed since. Its dedup key is not claimed again. */
  private newMessage(message: ArchivedMessage): NewMessage {
    const { ordering, buckets } = this.sources.options;
    return {
      ...message,
      bucket: ordering === 'global' ? 0 : bucketOf(message.key ?? message.id, buckets),
      headers: withReplayHeader(message.headers, this.auditId),
      delay: null,
      deliverAt: null,
      dedupKey: null,
    };
  }
}
