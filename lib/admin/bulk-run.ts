import { compareSeq } from '../outbox-message.js';
import type { Change } from '../store/admin-store.js';
import type { AuditRow, Bounds, BulkRow, BulkStore } from '../store/bulk-store.js';
import type { InspectStore, StoredRow } from '../store/inspect-store.js';
import { audited, ChunkedRows } from './audited-run.js';
import type { BulkReport, CheckedOptions } from './bulk-options.js';
import type { CheckedBulk } from './bulk-selection.js';
import { normalizedError } from './failure-groups.js';

export interface BulkSources {
  readonly bulk: BulkStore;
  readonly inspect: InspectStore;
  /** Rows may be due. */
  changed(): void;
}
export interface BulkAction {
  readonly change: Change;
  readonly meant: CheckedBulk;
  /** The number of the transport. */
  readonly transport: number | undefined;
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

/** How many rows the filter means now. */
export async function countMeant(sources: BulkSources, action: BulkAction): Promise<number> {
  let count = 0;
  for await (const { rows } of parkedRows(sources.bulk, action, await sources.bulk.bounds())) count += rows.length;
  return count;
}

/**
 * What is parked, in the order of the rows' numbers: each row comes once, whatever becomes of it meanwhile. Then what is ready.
 * An action of which nobody hears any more stays in the audit without an outcome, with the count of what it did.
 */
export async function runBulk(
  sources: BulkSources,
  action: BulkAction,
  options: CheckedOptions,
  filter: string,
): Promise<BulkReport> {
  const { bulk } = sources;
  const bounds = await bulk.bounds();
  const auditId = await bulk.begin({ action: action.change, actor: options.actor, filter });
  const chunked = new ChunkedRows(options, () => sources.changed());
  const outcome = await audited(
    (...ended) => bulk.end(auditId, ...ended),
    async () =>
      (await changeParked(sources, action, bounds, { auditId, chunked })) &&
      (await cancelReady(sources, action, bounds, { auditId, chunked })),
  );
  const { done, skipped } = (outcome === 'aborted' && (await auditRow(bulk, auditId))) || chunked;
  return { auditId, done, skipped, outcome };
}

/** Of one that was ended within a chunk the audit alone has all: a store may have written a part of the chunk before. */
async function auditRow(bulk: BulkStore, auditId: string): Promise<AuditRow | undefined> {
  const [row] = await bulk.audit(String(BigInt(auditId) + 1n), 1);
  return row?.id === auditId ? row : undefined;
}

interface Run {
  readonly auditId: string;
  readonly chunked: ChunkedRows;
}

/** @returns `false`: the action has ended */
async function changeParked(
  { bulk }: BulkSources,
  action: BulkAction,
  bounds: Bounds,
  { auditId, chunked }: Run,
): Promise<boolean> {
  const { change, meant } = action;
  const write = (rows: readonly BulkRow[]) => bulk.change(auditId, change, meant.states, rows);
  const share = meant.ready ? 0.5 : 1;
  for await (const { rows, fraction } of parkedRows(bulk, action, bounds))
    if (!(await chunked.each(rows, fraction * share, write))) return false;
  return true;
}

async function cancelReady(
  { bulk, inspect }: BulkSources,
  action: BulkAction,
  bounds: Bounds,
  { auditId, chunked }: Run,
): Promise<boolean> {
  if (!action.meant.ready) return true;
  const write = (rows: readonly StoredRow[]) => bulk.cancelReady(auditId, rows);
  for await (const { rows, fraction } of readyRows(inspect, action, bounds))
    if (!(await chunked.each(rows, fraction, write))) return false;
  return true;
}

/** Rows that are deleted come from the last to the first: a deletion wakes what waited behind it, which would be sent first. */
async function* parkedRows(bulk: BulkStore, action: BulkAction, bounds: Bounds): AsyncGenerator<Piece<BulkRow>> {
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

/** Of what was ready when the action began. */
async function* readyRows(
  inspect: InspectStore,
  action: BulkAction,
  { now }: Bounds,
): AsyncGenerator<Piece<StoredRow>> {
  const { meant, transport } = action;
  const filter = { ...meant.filter, ...(transport === undefined ? {} : { transport }) };
  let after: string | null = null;
  do {
    const page = await inspect.page({ ...filter, state: 'ready', after, limit: PAGE });
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
