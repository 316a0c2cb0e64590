import { errorText } from '../observe/redact/error-text.js';
import { compareSeq } from '../outbox-message.js';
import type { Change } from '../store/admin-store.js';
import type { Bounds, BulkRow, BulkStore } from '../store/bulk-store.js';
import type { InspectStore, StoredRow } from '../store/inspect-store.js';
import { systemClock } from '../time/clock.js';
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
  const run = new BulkRun(sources, action, options, auditId);
  try {
    const outcome = (await run.parked(bounds)) && (await run.ready(bounds)) ? 'done' : 'aborted';
    const isOurs = await bulk.end(auditId, outcome, null);
    return { auditId, done: run.done, skipped: run.skipped, outcome: isOurs ? outcome : 'aborted' };
  } catch (error) {
    await bulk.end(auditId, 'failed', errorText(error)).catch(() => undefined); // the database may be what failed
    throw error;
  }
}

class BulkRun {
  done = 0;
  skipped = 0;
  chunks = 0;

  constructor(
    readonly sources: BulkSources,
    readonly action: BulkAction,
    readonly options: CheckedOptions,
    readonly auditId: string,
  ) {}

  /** @returns `false`: the action has ended */
  async parked(bounds: Bounds): Promise<boolean> {
    const { change, meant } = this.action;
    const write = (rows: readonly BulkRow[]) => this.sources.bulk.change(this.auditId, change, meant.states, rows);
    const share = meant.ready ? 0.5 : 1;
    for await (const piece of parkedRows(this.sources.bulk, this.action, bounds))
      if (!(await this.inChunks(piece, share, write))) return false;
    return true;
  }

  async ready(bounds: Bounds): Promise<boolean> {
    if (!this.action.meant.ready) return true;
    const write = (rows: readonly StoredRow[]) => this.sources.bulk.cancelReady(this.auditId, rows);
    for await (const piece of readyRows(this.sources.inspect, this.action, bounds))
      if (!(await this.inChunks(piece, 1, write))) return false;
    return true;
  }

  async inChunks<T>(
    { rows, fraction }: Piece<T>,
    share: number,
    write: (rows: readonly T[]) => Promise<number | undefined>,
  ): Promise<boolean> {
    const { chunkSize, signal, progress } = this.options;
    for (let from = 0; from < rows.length; from += chunkSize) {
      if (this.chunks++ > 0) await this.rest();
      if (signal?.aborted === true) return false;
      const some = rows.slice(from, from + chunkSize);
      const changed = await write(some);
      if (changed === undefined) return false;
      this.done += changed;
      this.skipped += some.length - changed;
      if (changed > 0) this.sources.changed();
      progress({ done: this.done, skipped: this.skipped, fraction: fraction * share });
    }
    return signal?.aborted !== true;
  }

  /** Until the pause is over, or the action is to end. */
  async rest(): Promise<void> {
    const { pause, signal } = this.options;
    if (pause === 0 || signal?.aborted === true) return;
    await new Promise<void>((resolve) => {
      const end = (): void => {
        cancel();
        signal?.removeEventListener('abort', end);
        resolve();
      };
      const cancel = systemClock.after(pause, end);
      signal?.addEventListener('abort', end);
    });
  }
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
