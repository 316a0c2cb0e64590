import { compareSeq } from '../outbox-message.js';
import { BULK_TIMEOUT, type Bounds, type InspectStore, type PageRow, type StoredRow } from '../store/inspect-store.js';
import type { AuditRow, OperatorStore, Step, StepReport } from '../store/operator-store.js';
import type { ChangeReport, CheckedOptions } from './bulk-options.js';
import { normalizedError } from './failure-groups.js';
import { NamedMessages, type ChangeAction } from './named-messages.js';
import { audited, ChunkedRows } from './run.js';

export interface ChangeSources {
  readonly operators: OperatorStore;
  readonly inspect: InspectStore;
  /** Rows may be due. */
  changed(): void;
}
/** Some rows in the order in which they are changed, and how far they lead. */
interface Piece {
  readonly rows: readonly StoredRow[];
  readonly fraction: number;
  readonly areReady: boolean;
}

/** Rows that are read at once. */
const PAGE = 5_000;
/** Ids that are looked for at once. */
const IDS = 500;

/** How many rows the selection means now. @param limit where the count may stop */
export async function countMeant({ inspect }: ChangeSources, action: ChangeAction, limit: number): Promise<number> {
  let count = 0;
  for await (const { rows } of pieces(inspect, action, NamedMessages.of(inspect, action))) {
    count += rows.length;
    if (count >= limit) return limit;
  }
  return count;
}

/** An action of which nobody hears any more stays in the audit without an outcome, with the count of what it did. */
export async function runChange(
  { operators, inspect, changed }: ChangeSources,
  action: ChangeAction,
  options: CheckedOptions,
  filter: string,
): Promise<ChangeReport> {
  const { change, meant } = action;
  const named = NamedMessages.of(inspect, action);
  const bounds = await inspect.bounds();
  const auditId = await operators.begin({ action: change, actor: options.actor, filter });
  const chunked = new ChunkedRows(options, changed);
  const written = async (step: Step): Promise<StepReport | undefined> => {
    const report = await operators.step(auditId, step);
    named?.changed(report?.ids ?? []);
    return report;
  };
  const work = async (): Promise<boolean> => {
    for await (const { rows, fraction, areReady } of pieces(inspect, action, named, bounds)) {
      const write = (some: readonly StoredRow[]): ReturnType<typeof written> =>
        written(areReady ? { do: 'cancel ready', rows: some } : { do: change, states: meant.states, rows: some });
      if (!(await chunked.each(rows, () => fraction, write))) return chunked.more;
    }
    return true;
  };
  const outcome = await audited(operators, auditId, work);
  const { done, skipped } = chunked;
  const lists = (await named?.report()) ?? { changed: [], tooLate: [], notFound: [] };
  return { auditId, done, skipped, outcome, more: chunked.more, ...lists };
}

/** One action. */
export async function auditRow(operators: OperatorStore, auditId: string): Promise<AuditRow | undefined> {
  const [row] = await operators.audit({ before: String(BigInt(auditId) + 1n), limit: 1 });
  return row?.id === auditId ? row : undefined;
}

/** What is parked, in the order of the rows' numbers: each row comes once, whatever becomes of it meanwhile. Then what is ready. */
async function* pieces(
  inspect: InspectStore,
  action: ChangeAction,
  named: NamedMessages | undefined,
  known?: Bounds,
): AsyncGenerator<Piece> {
  const bounds = known ?? (await inspect.bounds());
  const { ready } = action.meant;
  for await (const { rows, fraction } of parkedRows(inspect, action, bounds)) {
    named?.found(rows);
    yield { rows, fraction: fraction * (ready ? 0.5 : 1), areReady: false };
  }
  if (!ready) return;
  // Of ids, wherever they are ready.
  if (named !== undefined) return yield { rows: await named.ready(), fraction: 1, areReady: true };
  yield* readyRows(inspect, action, bounds);
}

type Part = Omit<Piece, 'areReady'>;

/** Rows that are deleted come from the last to the first: a deletion wakes what waited behind it, which would be sent first. */
async function* parkedRows(inspect: InspectStore, action: ChangeAction, bounds: Bounds): AsyncGenerator<Part> {
  const { meant, change } = action;
  const backwards = change !== 'requeue';
  const lists = meant.ids === undefined ? [undefined] : slicesOf(meant.ids, IDS);
  for (const [n, ids] of lists.entries()) {
    const request = {
      ...({ ...filterOf(action), state: 'parked', parked: { states: meant.states, bounds }, backwards } as const),
      ...(ids && { ids }),
    };
    let [after, fraction] = [null as string | null, 0];
    do {
      const page = await inspect.find({ ...request, after, limit: PAGE, timeout: BULK_TIMEOUT });
      after = page.next;
      fraction = after === null ? 1 : (partOf(bounds, page.rows.at(-1), backwards) ?? fraction);
      const failedAlike = ({ lastError }: StoredRow): boolean =>
        meant.error === undefined || normalizedError(lastError ?? '') === meant.error;
      const rows = page.rows.filter(failedAlike);
      rows.sort((a, b) => (backwards ? compareSeq(b.seq, a.seq) : compareSeq(a.seq, b.seq)));
      yield { rows, fraction: (n + fraction) / lists.length };
    } while (after !== null);
  }
}

/** What was ready when the action began. */
async function* readyRows(inspect: InspectStore, action: ChangeAction, { now }: Bounds): AsyncGenerator<Piece> {
  let after: string | null = null;
  do {
    const page: { rows: readonly PageRow[]; next: string | null } = await inspect.find({
      ...filterOf(action),
      state: 'ready',
      after,
      limit: PAGE,
    });
    const rows = page.rows.filter(({ createdAt }) => createdAt === null || createdAt <= now);
    after = page.rows.length > 0 && rows.length === 0 ? null : page.next;
    yield { rows, fraction: after === null ? 1 : 0.5, areReady: true };
  } while (after !== null);
}

const filterOf = ({ meant, transport }: ChangeAction) => ({
  ...meant.filter,
  ...(transport === undefined ? {} : { transport }),
});

function slicesOf<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, n) => items.slice(n * size, (n + 1) * size));
}

/** How much of the rows' numbers lies behind. */
function partOf({ from, upTo }: Bounds, last: StoredRow | undefined, backwards: boolean): number | undefined {
  if (last === undefined || from === null || upTo === null) return undefined;
  const [all, first] = [upTo, last.rowId as string].map((number) => Number(BigInt(number) - BigInt(from)) + 1) as [
    number,
    number,
  ];
  return Math.min(1, Math.max(0, backwards ? 1 - (first - 1) / all : first / all));
}
