import type { Change } from '../store/admin-store.js';
import type { InspectStore, StoredRow } from '../store/inspect-store.js';
import type { ChangeReport } from './bulk-options.js';
import { STATES } from './message-query.js';
import type { CheckedSelection } from './message-selection.js';
import { ofFilter } from './of-filter.js';

export interface ChangeAction {
  readonly change: Change;
  readonly meant: CheckedSelection;
  /** The number of the transport. */
  readonly transport: number | undefined;
  /** Where messages of the selection's key are. */
  readonly bucket: number | undefined;
}
type Lists = Pick<ChangeReport, 'changed' | 'tooLate' | 'notFound'>;
interface Looked {
  readonly rows: readonly StoredRow[];
  /** Ids for which not all could be looked through. */
  readonly unsure: ReadonlySet<string>;
}

/** What becomes of messages that an action names by their ids. */
export class NamedMessages {
  /** Ids of rows that were changed, one for each row. */
  private readonly done: string[] = [];
  /** Buckets of those that were parked. */
  private readonly buckets = new Map<string, number>();
  private looked: Promise<Looked> | undefined;
  /** Rows that were changed before the look. */
  private before = 0;

  constructor(
    readonly inspect: Pick<InspectStore, 'byIds'>,
    readonly action: ChangeAction,
    readonly ids: readonly string[],
  ) {}

  static of(inspect: Pick<InspectStore, 'byIds'>, action: ChangeAction): NamedMessages | undefined {
    const { ids } = action.meant;
    return ids === undefined ? undefined : new NamedMessages(inspect, action, ids);
  }

  found(rows: readonly StoredRow[]): void {
    for (const { id, bucket } of rows) this.buckets.set(id, bucket);
  }

  changed(ids: readonly string[]): void {
    this.done.push(...ids);
  }

  /** What is ready, as all of the selection names it. */
  async ready(): Promise<readonly StoredRow[]> {
    return this.meant(await this.look(), ['ready']);
  }

  async report(): Promise<Lists> {
    const { change } = this.action;
    const looked = await this.look();
    const done = new Set(this.done);
    const there = new Set(this.meant(looked, STATES).map(({ id }) => id));
    const elsewhere = change === 'cancel' ? this.left(looked) : new Set<string>();
    const changed = this.ids.filter((id) => done.has(id) && !elsewhere.has(id));
    const others = this.ids.filter((id) => !done.has(id) || elsewhere.has(id));
    const isThere = (id: string): boolean =>
      done.has(id) || there.has(id) || this.buckets.has(id) || looked.unsure.has(id);
    return { changed, tooLate: others.filter(isThere), notFound: others.filter((id) => !isThere(id)) };
  }

  /** What waits, of what was looked at. */
  private waiting({ rows }: Looked): StoredRow[] {
    const { transport } = this.action;
    return rows.filter((row) => row.state !== 'published' && (transport ?? row.transport) === row.transport);
  }

  private meant(looked: Looked, states: readonly StoredRow['state'][]): StoredRow[] {
    const { meant, transport } = this.action;
    return ofFilter(this.waiting(looked), { ids: undefined, states, filter: meant.filter }, transport);
  }

  /** Ids that may be published still: a row that was seen was not deleted since then, or some were not looked at. */
  private left(looked: Looked): Set<string> {
    const rows = new Map<string, number>();
    for (const { id } of this.waiting(looked)) rows.set(id, (rows.get(id) ?? 0) + 1);
    for (const id of this.done.slice(this.before)) rows.set(id, (rows.get(id) ?? 0) - 1);
    return new Set([...looked.unsure, ...[...rows].filter(([, count]) => count > 0).map(([id]) => id)]);
  }

  /**
   *Where they are, after what was parked was changed: what was not parked; and of a cancel all, as another transport may
   * have them. All rows of an id are in one bucket.
   */
  private look(): Promise<Looked> {
    this.before = this.looked === undefined ? this.done.length : this.before;
    return (this.looked ??= this.lookNow());
  }

  private async lookNow(): Promise<Looked> {
    const { inspect, ids, action } = this;
    const [isCancel, { bucket }] = [action.change === 'cancel', action];
    const [rows, unsure] = [new Array<StoredRow>(), new Set<string>()];
    const places = bucket === undefined ? new Map(this.buckets) : new Map(ids.map((id) => [id, bucket]));
    const unplaced = ids.filter((id) => !places.has(id));
    if (unplaced.length > 0) {
      const { rows: found, isComplete } = await inspect.byIds(unplaced, {});
      const seen = new Set(found.map(({ id }) => id));
      if (!isComplete) for (const id of unplaced) if (!seen.has(id)) unsure.add(id);
      // Of what was seen, the bucket is looked through as a whole: it may be there for another transport.
      if (isComplete || !isCancel) rows.push(...found);
      else for (const row of found) places.set(row.id, row.bucket);
    }
    for (const [place, some] of byBucket(places, (id) => isCancel || !this.buckets.has(id))) {
      const { rows: found, isComplete } = await inspect.byIds(some, { bucket: place });
      rows.push(...found);
      if (!isComplete) for (const id of some) unsure.add(id);
    }
    return { rows, unsure };
  }
}

function byBucket(places: ReadonlyMap<string, number>, wanted: (id: string) => boolean): Map<number, string[]> {
  const buckets = new Map<number, string[]>();
  for (const [id, bucket] of places) {
    const ids = buckets.get(bucket);
    if (!wanted(id)) continue;
    if (ids === undefined) buckets.set(bucket, [id]);
    else ids.push(id);
  }
  return buckets;
}
