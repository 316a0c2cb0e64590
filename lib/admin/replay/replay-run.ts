import { bucketOf } from '../../message/bucket-of.js';
import { countFitting } from '../../message/fitting-by-bytes.js';
import { withReplayHeader } from '../../message/replay-header.js';
import type { NewMessage } from '../../outbox-message.js';
import type { ResolvedOptions } from '../../outbox.options.js';
import type { InspectStore, PageRow } from '../../store/inspect-store.js';
import type { ArchivedMessage, OperatorStore, StepReport } from '../../store/operator-store.js';
import { systemClock } from '../../time/clock.js';
import { archivePages, whileWhole, type ArchivePage, type ArchiveRequest, type Layouts } from '../archive-pages.js';
import type { BulkProgress } from '../bulk-options.js';
import { audited, ChunkedRows, rest } from '../run.js';
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
  readonly filter: Omit<ArchiveRequest, 'after'>;
}

/** Bytes that are read and inserted at once, about. */
const CHUNK_BYTES = 16 * 1024 * 1024;

/** What the filter means, in the order of the publishing. */
export function replayed(
  { inspect, partitions }: ReplaySources,
  { plan, filter }: ReplayAction,
): AsyncGenerator<ArchivePage> {
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
  const { operators, partitions } = sources;
  const { signal } = options;
  const isMeant = isReplayed(sources, action.plan);
  const pace = new Pace(options.perSecond, systemClock);
  const progress = (said: BulkProgress): void => options.progress({ auditId, ...said });
  const chunked = new ChunkedRows({ ...options, progress }, sources.changed);
  let from = planText(action.plan); // as the row of the audit has it
  const insert = async (rows: readonly PageRow[]): Promise<StepReport | undefined> => {
    const meant = rows.filter(isMeant).map(({ position }) => position);
    await rest(pace.turn(meant.length), signal);
    if (signal?.aborted === true) return undefined;
    const read = (): Promise<readonly ArchivedMessage[]> => operators.archived(meant);
    const isComplete = ({ length }: { length: number }): boolean => length === meant.length;
    const found = meant.length === 0 ? [] : await whileWhole(partitions, 'replay', read, isComplete);
    const last = rows.at(-1) as PageRow;
    const to = planText({ ...action.plan, after: last.position });
    const messages = found.map((message) => newMessage(sources, auditId, message));
    const skipped = rows.length - found.length;
    const written = await operators.step(auditId, { do: 'insert', messages, skipped, from, to });
    if (written !== undefined) from = to;
    return written;
  };
  const fitting = (rows: readonly PageRow[]): number =>
    countFitting(rows, CHUNK_BYTES, (row) => (isMeant(row) ? (row.archived?.bytes ?? 0) : 0));
  const all = async (): Promise<boolean> => {
    for await (const { rows, fractionOf } of replayed(sources, action))
      if (!(await chunked.each(rows, fractionOf, insert, fitting))) return false;
    return true;
  };
  const outcome = await audited(operators, auditId, all, () => ({ from }));
  return { auditId, done: chunked.done, skipped: chunked.skipped, outcome };
}

/** Its bucket is that of today: their number may have changed since. Its dedup key is not claimed again. */
function newMessage({ options }: ReplaySources, auditId: string, message: ArchivedMessage): NewMessage {
  const { ordering, buckets } = options;
  return {
    ...message,
    bucket: ordering === 'global' ? 0 : bucketOf(message.key ?? message.id, buckets),
    headers: withReplayHeader(message.headers, auditId),
    delay: null,
    deliverAt: null,
    dedupKey: null,
  };
}
