import { OutboxError } from '../outbox.errors.js';
import { BULK_TIMEOUT, PAGE_LOOK, type InspectStore, type PageRow, type RowRequest } from '../store/inspect-store.js';

/** A store with partitions: whether rows wait beside the archive for theirs, and what changes each time that some are put there. */
export interface Layouts {
  layout(): Promise<{ readonly aside: boolean; readonly catchAll: string }>;
}

/**
 * Looks at the archive, or changes rows of it, while all of it is there. No look finds rows that wait beside it, and after the look
 * they are there again: a purge would spare them, a replay leave them out.
 * @param isComplete of a result that misses nothing, whatever was beside the archive
 * @throws OutboxError `ARCHIVE_MOVING`: some were beside it before, after, or in between
 */
export async function whileWhole<T>(
  partitions: Layouts | undefined,
  subject: string,
  work: () => Promise<T>,
  isComplete: (result: T) => boolean = () => false,
): Promise<T> {
  const before = await partitions?.layout();
  if (before?.aside === true) throw moving(subject);
  const result = await work();
  if (isComplete(result)) return result;
  const after = await partitions?.layout();
  if (after?.aside === true || after?.catchAll !== before?.catchAll) throw moving(subject);
  return result;
}

/** Which rows of the archive are looked at. */
export type ArchiveRequest = Omit<RowRequest, 'state' | 'limit'> & Required<Pick<RowRequest, 'published'>>;
export interface ArchivePage {
  readonly rows: readonly PageRow[];
  /** How much of the way lies behind with some of the rows, by time, as nobody has counted them; 1: there is nothing behind them. */
  fractionOf(some: readonly PageRow[]): number;
}

/** What was published, in its order, page by page. */
export async function* archivePages(
  inspect: Pick<InspectStore, 'find'>,
  partitions: Layouts | undefined,
  subject: string,
  { after: behind, ...request }: ArchiveRequest,
): AsyncGenerator<ArchivePage> {
  const end = request.published.before.getTime();
  let begin = request.published.from?.getTime();
  let reached = 0;
  let after = behind;
  do {
    const asked = { ...request, state: 'published', after, limit: PAGE_LOOK, timeout: BULK_TIMEOUT } as const;
    const { rows, next } = await whileWhole(partitions, subject, () => inspect.find(asked));
    const first = (begin ??= rows[0]?.publishedAt?.getTime()) ?? end;
    const fractionOf = (some: readonly PageRow[]): number => {
      if (next === null && some.at(-1) === rows.at(-1)) return 1;
      const time = some.at(-1)?.publishedAt?.getTime();
      if (time !== undefined) reached = Math.min(1, Math.max(0, (time - first) / Math.max(1, end - first)));
      return reached;
    };
    yield { rows, fractionOf };
    after = next;
  } while (after !== null);
}

const moving = (subject: string): OutboxError =>
  new OutboxError(
    'ARCHIVE_MOVING',
    `${subject}: messages wait beside the archive for their partition, and are not found.`,
    { hint: "Let the maintainer of partitions, or 'partitions run', move them. Then call again." },
  );
