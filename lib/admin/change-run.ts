import { compareSeq } from '../outbox-message.js';
import type { AuditRow, Bounds, BulkRow, BulkStore } from '../store/bulk-store.js';
import type { InspectStore, RowPage, StoredRow } from '../store/inspect-store.js';
import { audited, ChunkedRows } from './audited-run.js';
import type { ChangeReport, CheckedOptions } from './bulk-options.js';
import { normalizedError } from './failure-groups.js';
import { NamedMessages, type ChangeAction } from './named-messages.js';

export interface ChangeSources {
  readonly bulk: BulkStore;
  /** @throws OutboxConfigurationError the store has none */
  inspect(): Pick<InspectStore, 'page'>;
  /** Rows may be due. */
  changed(): void;
}
/** Some rows in the order in which they are changed, and how far they lead. */
interface Piece<T> {
  readonly rows: readonly T[];
  readonly fraction: number;
}

/** Rows that are read at once. */
const PAGE = 5_000;
/** Ids that are looked for at once. */
const IDS = 500;

/** How many rows the selection means now. @param limit where the count may stop */
export async function countMeant(sources: ChangeSources, action: ChangeAction, limit: number): Promise<number> {
  const { bulk } = sources;
  const bounds = await bulk.bounds();
  const named = NamedMessages.of(bulk, action);
  let count = 0;
  for await (const { rows } of parkedRows(bulk, action, bounds)) {
    named?.found(rows);
    count += rows.length;
    if (count >= limit) return limit;
  }
  for await (const { rows } of readyRows(sources, action, bounds, named)) {
    count += rows.length;
    if (count >= limit) return limit;
  }
  return count;
}

/**
 * What is parked, in the order of the rows' numbers: each row comes once, whatever becomes of it meanwhile. Then what is ready.
 * An action of which nobody hears any more stays in the audit without an outcome, with the count of what it did.
 */
export async function runChange(
  sources: ChangeSources,
  action: ChangeAction,
  options: CheckedOptions,
  filter: string,
): Promise<ChangeReport> {
  const { bulk } = sources;
  const { change, meant } = action;
  const bounds = await bulk.bounds();
  const auditId = await bulk.begin({ action: change, actor: options.actor, filter });
  const chunked = new ChunkedRows(options, () => sources.changed());
  const named = NamedMessages.of(bulk, action);
  const noted = async (ids: Promise<readonly string[] | undefined>): Promise<number | undefined> =>
    named === undefined ? (await ids)?.length : named.changed(await ids);
  const share = meant.ready ? 0.5 : 1;
  const work = async (): Promise<boolean> => {
    for await (const { rows, fraction } of parkedRows(bulk, action, bounds)) {
      named?.found(rows);
      const write = (some: readonly BulkRow[]) => noted(bulk.change(auditId, change, meant.states, some));
      if (!(await chunked.each(rows, fraction * share, write))) return chunked.more;
    }
    for await (const { rows, fraction } of readyRows(sources, action, bounds, named)) {
      const write = (some: readonly StoredRow[]) => noted(bulk.cancelReady(auditId, some));
      if (!(await chunked.each(rows, fraction, write))) return chunked.more;
    }
    return true;
  };
  const outcome = await audited((...ended) => bulk.end(auditId, ...ended), work);
  const { done, skipped } = (outcome === 'aborted' && (await auditRow(bulk, auditId))) || chunked;
  const lists = (await named?.report()) ?? { changed: [], tooLate: [], notFound: [] };
  return { auditId, done, skipped, outcome, more: chunked.more, ...lists };
}

/** Of one that was ended within a chunk the audit alone has all: a store may have written a part of the chunk before. */
async function auditRow(bulk: BulkStore, auditId: string): Promise<AuditRow | undefined> {
  const [row] = await bulk.audit(String(BigInt(auditId) + 1n), 1);
  return row?.id === auditId ? row : undefined;
}

/** Rows that are deleted come from the last to the first: a deletion wakes what waited behind it, which would be sent first. */
async function* parkedRows(bulk: BulkStore, action: ChangeAction, bounds: Bounds): AsyncGenerator<Piece<BulkRow>> {
  const { meant, transport, change } = action;
  const backwards = change !== 'requeue';
  const lists = meant.ids === undefined ? [undefined] : slicesOf(meant.ids, IDS);
  for (const [n, ids] of lists.entries()) {
    const filter = {
      ...meant.filter,
      states: meant.states,
      ...(ids && { ids }),
      ...(transport === undefined ? {} : { transport }),
    };
    let after: string | null = null;
    do {
      const request = { filter, bounds, after, backwards, limit: PAGE, withErrors: meant.error !== undefined };
      const page = await bulk.find(request);
      const rows = page.rows.filter(({ error }) => meant.error === undefined || normalizedError(error) === meant.error);
      after = page.next;
      yield {
        rows: rows.sort((a, b) => (backwards ? compareSeq(b.seq, a.seq) : compareSeq(a.seq, b.seq))),
        fraction: (n + partOf(bounds, after, backwards)) / lists.length,
      };
    } while (after !== null);
  }
}

/** Of what was ready when the action began. Of ids, wherever they are ready. */
async function* readyRows(
  { inspect }: ChangeSources,
  { meant, transport }: ChangeAction,
  { now }: Bounds,
  named: NamedMessages | undefined,
): AsyncGenerator<Piece<StoredRow>> {
  if (!meant.ready) return;
  if (named !== undefined) return yield { rows: await named.ready(), fraction: 1 };
  const filter = { ...meant.filter, ...(transport === undefined ? {} : { transport }) };
  let after: string | null = null;
  do {
    const page: RowPage = await inspect().page({ ...filter, state: 'ready', after, limit: PAGE });
    const rows = page.rows.filter(({ createdAt }) => createdAt === null || createdAt <= now);
    after = page.rows.length > 0 && rows.length === 0 ? null : page.next;
    yield { rows, fraction: after === null ? 1 : 0.5 };
  } while (after !== null);
}

function slicesOf<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, n) => items.slice(n * size, (n + 1) * size));
}

/** How much of the rows' numbers lies behind. */
function partOf({ from, upTo }: Bounds, after: string | null, backwards: boolean): number {
  if (after === null || from === null || upTo === null) return 1;
  const [all, first] = [Number(BigInt(upTo) - BigInt(from)) + 1, Number(BigInt(after) - BigInt(from)) + 1];
  return Math.min(1, Math.max(0, backwards ? 1 - (first - 1) / all : first / all));
}
