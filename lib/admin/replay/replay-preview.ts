import type { PageRow } from '../../store/inspect-store.js';
import { toFound, nameOf, type FoundMessage } from '../found-message.js';
import type { CheckedReplayOptions } from './replay-options.js';
import { isReplayed, replayed, type ReplayAction, type ReplaySources } from './replay-run.js';

/** The result of a dry run of a replay. Each message counts once for each of its transports. */
export interface ReplayPreview {
  /** Messages that it would insert. */
  readonly count: number;
  /** Messages that it would leave out: those of earlier replays, and those of transports that left the options. */
  readonly skipped: number;
  /** Size of the payloads and headers that it would insert. */
  readonly bytes: number;
  /** When the first and the last of them were published. */
  readonly firstAt: Date | null;
  readonly lastAt: Date | null;
  /** The 20 with most messages. */
  readonly transports: readonly ReplayCount[];
  readonly types: readonly ReplayCount[];
  readonly topics: readonly ReplayCount[];
  /** The first 10, in the order in which they would be inserted. */
  readonly messages: readonly FoundMessage[];
  /** Why there is nothing, where that is known. */
  readonly hint: string | null;
}
export interface ReplayCount {
  readonly name: string;
  readonly count: number;
}

const FIRST = 10;
const MOST_COUNTS = 20;
/** Names that are counted. */
const MOST_NAMES = 10_000;
const EMPTY =
  "The archive is empty. It keeps what was published where onPublished is 'archive', for retention.published; the default deletes it.";

/** Looks at all that the filter means, and changes nothing. */
export async function previewReplay(
  sources: ReplaySources,
  action: ReplayAction,
  { signal, progress }: Pick<CheckedReplayOptions, 'signal' | 'progress'>,
): Promise<ReplayPreview> {
  const isMeant = isReplayed(sources, action.plan);
  const found = new Found(sources.names);
  for await (const { rows, fractionOf } of replayed(sources, action)) {
    signal?.throwIfAborted();
    const meant = rows.filter(isMeant);
    found.skipped += rows.length - meant.length;
    for (const row of meant) found.add(row);
    progress({ auditId: '', done: found.count, skipped: found.skipped, fraction: fractionOf(rows) });
  }
  return found.preview(found.count + found.skipped > 0 ? null : await hintOf(sources, action));
}

class Found {
  count = 0;
  skipped = 0;
  bytes = 0;
  firstAt: Date | null = null;
  lastAt: Date | null = null;
  readonly transports = new Counts();
  readonly types = new Counts();
  readonly topics = new Counts();
  readonly messages: FoundMessage[] = [];

  constructor(readonly names: ReadonlyMap<number, string>) {}

  add(row: PageRow): void {
    this.count += 1;
    this.bytes += row.archived?.bytes ?? 0;
    this.firstAt ??= row.publishedAt;
    this.lastAt = row.publishedAt;
    this.transports.add(nameOf(row.transport, this.names));
    this.types.add(row.type);
    this.topics.add(row.topic);
    if (this.messages.length < FIRST) this.messages.push(toFound(row, this.names));
  }

  preview(hint: string | null): ReplayPreview {
    const { count, skipped, bytes, firstAt, lastAt, messages } = this;
    const counts = { transports: this.transports.most, types: this.types.most, topics: this.topics.most };
    return { count, skipped, bytes, firstAt, lastAt, ...counts, messages, hint };
  }
}

/** An archive that has nothing at all is one that nobody keeps. */
async function hintOf({ inspect }: ReplaySources, { plan: { before } }: ReplayAction): Promise<string | null> {
  const { rows } = await inspect.find({ state: 'published', published: { from: null, before }, after: null, limit: 1 });
  return rows.length === 0 ? EMPTY : null;
}

class Counts {
  private readonly counts = new Map<string, number>();

  add(name: string): void {
    const count = this.counts.get(name);
    if (count !== undefined || this.counts.size < MOST_NAMES) this.counts.set(name, (count ?? 0) + 1);
  }
  get most(): ReplayCount[] {
    const all = [...this.counts].map(([name, count]) => ({ name, count }));
    return all.sort((a, b) => b.count - a.count).slice(0, MOST_COUNTS);
  }
}
