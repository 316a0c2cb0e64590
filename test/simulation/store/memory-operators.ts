import type { Bounds, RowPage, RowRequest, RowsById, StoredRow } from '../../../lib/store/inspect-store.js';
import type {
  AuditRequest,
  AuditRow,
  ChangeStep,
  EndStep,
  NewAction,
  ReadyStep,
  ReleaseStep,
  Step,
  StepReport,
} from '../../../lib/store/operator-store.js';
import { compareSeq } from '../../../lib/outbox-message.js';
import { release, wakeNext } from './memory-admin.js';
import type { MemoryDatabase } from './memory-database.js';
import { freeDedup } from './memory-dedup.js';
import { isBeingSent } from './memory-keys.js';
import { isLocked, isVisible, type ParkedRow, type ReadyRow } from './memory-rows.js';
import type { MemoryStore } from './memory-store.js';
import { Blocked, type MemoryTransaction } from './memory-transaction.js';

/** What operators do to messages, never to one that is being sent, and how they find them. Each method is one step. */
export class MemoryOperators {
  constructor(readonly store: MemoryStore) {}

  private get database(): MemoryDatabase {
    return this.store.database;
  }

  bounds = (): Promise<Bounds> =>
    this.store.call('bounds', () => {
      const ids = this.database.parkedRows().map(({ parkedId }) => parkedId);
      const [at, sorted] = [this.database.now(), ids.sort(compareSeq)];
      return { from: sorted[0] ?? null, upTo: sorted.at(-1) ?? null, at: String(at), now: new Date(Math.ceil(at) + 1) };
    });

  /** What is ready, or parked. */
  find = (request: RowRequest): Promise<RowPage> =>
    this.store.call('find', () => {
      const { state, parked, after, backwards = false, limit } = request;
      const way = backwards ? -1 : 1;
      const found = state === 'ready' ? this.visible() : this.parkedIn(parked);
      const rows = found
        .filter((row) => after === null || compareSeq(numberOf(row), after) * way > 0)
        .filter((row) => matches(request, row, this.database.now()))
        .sort((a, b) => compareSeq(numberOf(a), numberOf(b)) * way);
      const page = rows.slice(0, limit).map((row) => ({ ...toStored(row), position: numberOf(row) }));
      return { rows: page, next: rows.length > limit ? (page.at(-1)?.position ?? null) : null };
    });

  private visible(): ReadyRow[] {
    return [...this.database.ready.values()].flatMap((rows) => [...rows.values()]).filter(isVisible);
  }

  private parkedIn(range: RowRequest['parked']): ParkedRow[] {
    const all = this.database.parkedRows();
    if (range === undefined) return all;
    const { states, bounds } = range;
    const { from, upTo, at } = bounds;
    if (from === null || upTo === null) return [];
    return all.filter((row) => {
      const isWithin = compareSeq(row.parkedId, from) >= 0 && compareSeq(row.parkedId, upTo) <= 0;
      const isNew = row.state === 'dead' && (row.diedAt ?? 0) > Number(at);
      return isWithin && !isNew && states.includes(row.state);
    });
  }

  byIds = (ids: readonly string[], { bucket }: { bucket?: number } = {}): Promise<RowsById> =>
    this.store.call('byIds', () => {
      const here = this.visible().filter((row) => bucket === undefined || row.bucket === bucket);
      const rows = [...here, ...this.database.parkedRows()].filter(({ id }) => ids.includes(id));
      return { rows: rows.map(toStored), isComplete: true };
    });

  begin = (action: NewAction): Promise<string> => this.store.write('begin', () => this.opened(action));

  private opened({ action, actor, filter }: NewAction): string {
    const { audits } = this.database;
    const [id, now] = [String(Number(audits.at(-1)?.id ?? 0) + 1), new Date(this.database.now())];
    const open = { done: 0, skipped: 0, outcome: null, error: null, endedAt: null };
    audits.push({ id, action, actor, filter, begunAt: now, touchedAt: now, ...open });
    return id;
  }

  step = (audit: string, step: Step): Promise<StepReport | undefined> =>
    step.do === 'end'
      ? this.store.write('end', () => this.ended(audit, step))
      : this.store.unblocked(() => this.store.call(step.do, () => this.stepped(audit, step)));

  /** A release is the only action of one step that is made here. */
  act = (action: NewAction, step: Step): Promise<{ audit: string; done: number }> =>
    this.store.write(step.do, () => {
      const audit = this.opened(action);
      const report = this.stepped(audit, step) as StepReport;
      this.ended(audit, { outcome: 'done', error: null });
      return { audit, done: report.done };
    });

  private stepped(audit: string, step: Step): StepReport | Blocked | undefined {
    const row = this.openAudit(audit);
    if (row === undefined) return undefined;
    if (step.do === 'release') {
      const { released } = release(this.database, step as ReleaseStep as { key: string; transport?: number });
      row.done += released;
      return { done: released, skipped: 0, ids: [] };
    }
    const asked = step as ChangeStep | ReadyStep;
    const changed = asked.do === 'cancel ready' ? this.cancelReady(asked) : this.change(asked);
    if (changed instanceof Blocked) return changed;
    const ids = changed.map(({ id }) => id);
    const skipped = asked.rows.length - ids.length;
    if (step.do !== 'requeue') freeDedup(this.database, ids);
    row.done += ids.length;
    row.skipped += skipped;
    if (ids.length > 0) this.database.write(() => undefined);
    return { done: ids.length, skipped, ids };
  }

  private change({ do: change, states, rows }: ChangeStep): readonly ReadyRow[] | Blocked {
    const now = this.database.now();
    const found = rows.flatMap(({ rowId }) => this.database.parked.get(rowId as string) ?? []).filter(isVisible);
    const locked = found.find(isLocked);
    if (locked !== undefined) return new Blocked(locked.lockedBy as MemoryTransaction);
    const changed = found.filter((row) => states.includes(row.state) && !isBeingSent(this.database, row, now));
    for (const row of changed) {
      if (change === 'requeue') this.requeue(row, now);
      else {
        this.database.parked.delete(row.parkedId);
        this.database.watch?.removed(row);
      }
    }
    if (change !== 'requeue') wakeNext(this.database, changed, now);
    return changed;
  }

  /** Of buckets that nobody leases: nobody can be sending them, but whoever locked them. */
  private cancelReady({ rows }: ReadyStep): readonly ReadyRow[] {
    const now = this.database.now();
    const cancelled = rows.flatMap(({ transport, bucket, seq }) => {
      const lease = this.database.lease(transport, bucket);
      const isLeased = lease !== undefined && lease.owner !== null && lease.expiresAt > now;
      const row = this.database.readyRow(transport, bucket, seq);
      return isLeased || row === undefined || isLocked(row) ? [] : [row];
    });
    for (const row of cancelled) {
      this.database.removeReady(row);
      this.database.watch?.removed(row);
    }
    return cancelled;
  }

  private ended(audit: string, { outcome, error }: Pick<EndStep, 'outcome' | 'error'>): StepReport | undefined {
    const row = this.openAudit(audit);
    if (row === undefined) return undefined;
    const now = new Date(this.database.now());
    Object.assign(row, { outcome, error, endedAt: now, touchedAt: now });
    return { done: 0, skipped: 0, ids: [] };
  }

  audit = ({ before, limit }: AuditRequest): Promise<AuditRow[]> =>
    this.store.call('audit', () => {
      const rows = this.database.audits.filter(({ id }) => before === null || Number(id) < Number(before));
      return rows.reverse().slice(0, limit);
    });

  private openAudit(audit: string): Writable | undefined {
    return this.database.audits.find(({ id, outcome }) => id === audit && outcome === null);
  }

  private requeue(row: ParkedRow, now: number): void {
    const { ordering } = this.database.settings;
    row.state = 'waiting';
    row.dueAt = now;
    row.attempts = 0;
    row.blocking = ordering === 'global' || (ordering !== 'none' && row.key !== null);
    row.sendingEpoch = null;
    row.diedAt = null;
    row.announced = false;
    this.database.watch?.requeued(row);
  }
}

type Writable = { -readonly [Name in keyof AuditRow]: AuditRow[Name] };

const numberOf = (row: ReadyRow | ParkedRow): string => ('parkedId' in row ? row.parkedId : row.seq);

function matches(request: RowRequest, row: ReadyRow, now: number): boolean {
  const { ids, transport, key, topic, type, olderThan = -Infinity, youngerThan = Infinity } = request;
  const age = now - row.createdAt;
  if (age < olderThan || age > youngerThan || ids?.includes(row.id) === false) return false;
  const wanted = { transport, key, topic, type };
  return (Object.keys(wanted) as (keyof typeof wanted)[]).every((name) => (wanted[name] ?? row[name]) === row[name]);
}

function toStored(row: ReadyRow | ParkedRow): StoredRow {
  const parked = 'parkedId' in row ? row : undefined;
  const { transport, bucket, seq, id, topic, key, type, version, contentType, createdAt } = row;
  const time = (at: number | null | undefined): Date | null => (at === null || at === undefined ? null : new Date(at));
  return {
    ...{ transport, bucket, seq, id, topic, key, type, version, contentType },
    state: parked?.state ?? 'ready',
    attempts: parked?.attempts ?? 0,
    lastError: parked?.lastError ?? null,
    createdAt: new Date(createdAt),
    dueAt: time(parked?.dueAt),
    diedAt: time(parked?.diedAt),
    lastAttemptAt: null,
    publishedAt: null,
    sendingEpoch: parked?.sendingEpoch === null ? null : String(parked?.sendingEpoch ?? ''),
    rowId: parked?.parkedId ?? null,
  };
}
