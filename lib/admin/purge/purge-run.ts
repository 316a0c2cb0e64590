import type { BulkStore } from '../../store/bulk-store.js';
import type { EditStore, KeptRow } from '../../store/edit/edit-store.js';
import type { PurgePage, PurgeRow, PurgeStore } from '../../store/edit/purge-store.js';
import { audited, ChunkedRows } from '../audited-run.js';
import type { BulkReport, CheckedOptions } from '../bulk-options.js';
import { keptContent } from '../edit/kept-version.js';
import { whileWhole, type Layouts } from '../moving-archive.js';
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
  readonly bulk: BulkStore;
  readonly edits: Pick<EditStore, 'kept'>;
  readonly purge: PurgeStore;
  readonly partitions: Layouts | undefined;
}
export interface PurgeAction {
  readonly meant: CheckedPurge;
  readonly transport: number | undefined;
}

/** Rows that are read at once: as many as a look of the store comes past, so that none is looked at twice. */
const ARCHIVED = 20_000;
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
  const { bulk } = sources;
  const until = await untilOf(sources, action);
  const auditId = await bulk.begin({ action: 'purge', actor: options.actor, filter });
  const chunked = new ChunkedRows(options);
  let versions = 0;
  const outcome = await audited(
    (...ended) => bulk.end(auditId, ...ended),
    async () => {
      for await (const edits of versionsOf(sources, action, until)) {
        const isGoing = await chunked.each(edits, 0, (some) => sources.purge.forget(auditId, some));
        versions = chunked.done;
        if (!isGoing) return false;
      }
      for await (const { rows, fraction } of archived(sources, action, until))
        if (!(await chunked.each(rows, fraction, (some) => removed(sources, auditId, some)))) return false;
      return !chunked.isAborted;
    },
  );
  return { auditId, done: chunked.done, skipped: chunked.skipped, versions, outcome };
}

/** By the database's clock. Nothing is as old as the calendar of the databases goes back. */
async function untilOf({ bulk }: PurgeSources, { meant }: PurgeAction): Promise<Date> {
  return new Date(Math.max(0, (await bulk.bounds()).now.getTime() - meant.olderThan));
}

/** What is gone since it was found may have been put beside the archive. */
function removed(
  { purge, partitions }: PurgeSources,
  auditId: string,
  rows: readonly PurgeRow[],
): Promise<number | undefined> {
  const work = (): Promise<number | undefined> => purge.remove(auditId, rows);
  return whileWhole(partitions, 'purge', work, (count) => count === undefined || count === rows.length);
}

async function* archived(
  { purge, partitions }: PurgeSources,
  { meant, transport }: PurgeAction,
  until: Date,
): AsyncGenerator<{ readonly rows: readonly PurgeRow[]; readonly fraction: number }> {
  const { ids, texts } = meant;
  const filter = { ...texts, ...(ids && { ids }), ...(transport === undefined ? {} : { transport }) };
  let [after, first] = [null as string | null, Infinity];
  do {
    const request = { ...filter, until, after, limit: ARCHIVED };
    const page: PurgePage = await whileWhole(partitions, 'purge', () => purge.archived(request));
    const at = page.at?.getTime() ?? until.getTime();
    first = Math.min(first, at);
    after = page.next;
    // By time: nobody has counted them.
    yield { rows: page.rows, fraction: after === null ? 1 : (at - first) / Math.max(1, until.getTime() - first) };
  } while (after !== null);
}

/** Numbers of edits whose old version is meant. */
async function* versionsOf({ edits }: PurgeSources, action: PurgeAction, until: Date): AsyncGenerator<string[]> {
  let before: string | null = null;
  for (let isMore = true; isMore;) {
    const rows: KeptRow[] = await edits.kept({ before, limit: PAGE, previewBytes: 0 });
    yield rows.filter((row) => isMeant(row, action, until)).map(({ audit }) => audit);
    before = rows.at(-1)?.audit ?? null;
    isMore = rows.length === PAGE;
  }
}

/** Of one that cannot be read nobody knows what it is: it is meant where only ids and times are asked for. */
function isMeant(row: KeptRow, { meant, transport }: PurgeAction, until: Date): boolean {
  if (row.kept === null) return false;
  if (meant.ids !== undefined && !meant.ids.includes(row.id)) return false;
  if (row.at !== null && row.at > until) return false;
  const content = keptContent(row.kept);
  const wanted = Object.entries({ ...meant.texts, ...(transport === undefined ? {} : { transport }) });
  return wanted.every(([name, value]) => content?.[name as 'key' | 'topic' | 'type' | 'transport'] === value);
}
