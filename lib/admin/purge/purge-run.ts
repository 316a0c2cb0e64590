import type { InspectStore, PageRow } from '../../store/inspect-store.js';
import type { AuditRow, OperatorStore, StepReport } from '../../store/operator-store.js';
import { archivePages, whileWhole, type ArchivePage, type Layouts } from '../archive-pages.js';
import type { BulkReport, CheckedOptions } from '../bulk-options.js';
import { keptContent } from '../edit/kept-version.js';
import { audited, ChunkedRows } from '../run.js';
import type { CheckedPurge } from './purge-selection.js';

/** What a purge would delete. */
export interface PurgeCount {
  /** Messages of the archive, each counted once for each of its transports. */
  readonly count: number;
  /** Old versions of messages that were edited. */
  readonly versions: number;
}
/** What a purge deleted: `done` counts messages of the archive and old versions together. */
export interface PurgeReport extends BulkReport, Pick<PurgeCount, 'versions'> {}

export interface PurgeSources {
  readonly operators: OperatorStore;
  readonly inspect: Pick<InspectStore, 'bounds' | 'find'>;
  readonly partitions: Layouts | undefined;
}
export interface PurgeAction {
  readonly meant: CheckedPurge;
  readonly transport: number | undefined;
}

/** Old versions that are read at once: their texts may be large. */
const PAGE = 200;

export async function countPurged(sources: PurgeSources, action: PurgeAction): Promise<PurgeCount> {
  const until = await untilOf(sources, action);
  let [count, versions] = [0, 0];
  for await (const { rows } of archived(sources, action, until)) count += rows.length;
  for await (const rows of versionsOf(sources, action, until)) versions += rows.length;
  return { count, versions };
}

/** Old versions first: they are few. What is published, or edited, after the beginning stays. */
export async function runPurge(
  sources: PurgeSources,
  action: PurgeAction,
  options: CheckedOptions,
  filter: string,
): Promise<PurgeReport> {
  const { operators } = sources;
  const until = await untilOf(sources, action);
  const auditId = await operators.begin({ action: 'purge', actor: options.actor, filter });
  const chunked = new ChunkedRows(options);
  let versions = 0;
  const outcome = await audited(operators, auditId, async () => {
    const forget = (edits: readonly string[]) => operators.step(auditId, { do: 'forget', edits });
    for await (const edits of versionsOf(sources, action, until)) {
      const isGoing = await chunked.each(edits, () => 0, forget);
      versions = chunked.done;
      if (!isGoing) return false;
    }
    for await (const { rows, fractionOf } of archived(sources, action, until))
      if (!(await chunked.each(rows, fractionOf, (some) => removed(sources, auditId, some)))) return false;
    return !chunked.isAborted;
  });
  return { auditId, done: chunked.done, skipped: chunked.skipped, versions, outcome };
}

/** By the database's clock. Nothing is as old as the calendar of the databases goes back. */
async function untilOf({ inspect }: PurgeSources, { meant }: PurgeAction): Promise<Date> {
  return new Date(Math.max(0, (await inspect.bounds()).now.getTime() - meant.olderThan));
}

/** What is gone since it was found may have been put beside the archive. */
function removed(
  { operators, partitions }: PurgeSources,
  auditId: string,
  rows: readonly PageRow[],
): Promise<StepReport | undefined> {
  const positions = rows.map(({ position }) => position);
  const work = (): Promise<StepReport | undefined> => operators.step(auditId, { do: 'purge', positions });
  return whileWhole(partitions, 'purge', work, (report) => report === undefined || report.done === rows.length);
}

function archived(
  { inspect, partitions }: PurgeSources,
  { meant, transport }: PurgeAction,
  until: Date,
): AsyncGenerator<ArchivePage> {
  const { ids, texts } = meant;
  const filter = { ...texts, ...(ids && { ids }), ...(transport === undefined ? {} : { transport }) };
  return archivePages(inspect, partitions, 'purge', {
    ...filter,
    published: { from: null, before: until },
    after: null,
  });
}

/** Numbers of edits whose old version is meant. */
async function* versionsOf({ operators }: PurgeSources, action: PurgeAction, until: Date): AsyncGenerator<string[]> {
  let before: string | null = null;
  for (let isMore = true; isMore;) {
    const rows: AuditRow[] = await operators.audit({ before, limit: PAGE, edits: { previewBytes: 0 } });
    const meant = rows.filter((row) => isMeant(row, action, until)).map(({ id }) => id);
    if (meant.length > 0) yield meant;
    before = rows.at(-1)?.id ?? null;
    isMore = rows.length === PAGE;
  }
}

/** Of one that cannot be read nobody knows what it is: it is meant where only ids and times are asked for. */
function isMeant({ edit, begunAt }: AuditRow, { meant, transport }: PurgeAction, until: Date): boolean {
  if (edit === undefined || edit.kept === null) return false;
  if (meant.ids !== undefined && !meant.ids.includes(edit.id)) return false;
  if (begunAt !== null && begunAt > until) return false;
  const content = keptContent(edit.kept);
  const wanted = Object.entries({ ...meant.texts, ...(transport === undefined ? {} : { transport }) });
  return wanted.every(([name, value]) => content?.[name as 'key' | 'topic' | 'type' | 'transport'] === value);
}
