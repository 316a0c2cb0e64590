import type { AuditOutcome } from '../../../lib/index.js';
import type { Change } from '../../../lib/store/admin-store.js';
import type {
  AuditRow,
  Bounds,
  BulkPage,
  BulkRequest,
  BulkRow,
  BulkStore,
  NewAction,
} from '../../../lib/store/bulk-store.js';
import type { RowFilter, RowsById, StoredRow } from '../../../lib/store/inspect-store.js';
import { compareSeq, type ParkedState } from '../../../lib/outbox-message.js';
import { release, wakeNext } from './memory-admin.js';
import type { MemoryDatabase } from './memory-database.js';
import { freeDedup } from './memory-dedup.js';
import { isBeingSent } from './memory-keys.js';
import { isLocked, isVisible, type ParkedRow, type ReadyRow } from './memory-rows.js';
import type { MemoryStore } from './memory-store.js';
import { Blocked, type MemoryTransaction } from './memory-transaction.js';

/** What operators do to messages, never to one that is being sent. Each method is one step. */
export class MemoryBulk implements BulkStore {
  constructor(readonly store: MemoryStore) {}

  get database(): MemoryDatabase {
    return this.store.database;
  }

  bounds = (): Promise<Bounds> =>
    this.store.call('bounds', () => {
      const ids = this.database.parkedRows().map(({ parkedId }) => parkedId);
      const [at, sorted] = [this.database.now(), ids.sort(compareSeq)];
      return { from: sorted[0] ?? null, upTo: sorted.at(-1) ?? null, at: String(at), now: new Date(Math.ceil(at) + 1) };
    });

  find = (request: BulkRequest): Promise<BulkPage> =>
    this.store.call('find', () => {
      const { bounds, after, backwards, limit, withErrors } = request;
      const { from, upTo, at } = bounds;
      if (from === null || upTo === null) return { rows: [], next: null };
      const rows = this.database.parkedRows(request.filter.transport).filter((row) => {
        const isBehind = after === null || compareSeq(row.parkedId, after) * (backwards ? -1 : 1) > 0;
        const isWithin = compareSeq(row.parkedId, from) >= 0 && compareSeq(row.parkedId, upTo) <= 0;
        const isNew = row.state === 'dead' && (row.diedAt ?? 0) > Number(at);
        const { ids, states } = request.filter;
        const isMeant = states.includes(row.state) && (ids?.includes(row.id) ?? true);
        return isBehind && isWithin && !isNew && isMeant && matches(request.filter, row, this.database.now());
      });
      rows.sort((a, b) => compareSeq(a.parkedId, b.parkedId) * (backwards ? -1 : 1));
      const page = rows.slice(0, limit).map((row) => toBulk(row, withErrors));
      return { rows: page, next: rows.length > limit ? (page.at(-1)?.rowId ?? null) : null };
    });

  locate = (ids: readonly string[], bucket?: number): Promise<RowsById> =>
    this.store.call('locate', () => {
      const ready = [...this.database.ready.values()].flatMap((rows) => [...rows.values()]).filter(isVisible);
      const here = ready.filter((row) => bucket === undefined || row.bucket === bucket);
      const rows = [...here, ...this.database.parkedRows()].filter(({ id }) => ids.includes(id));
      return { rows: rows.map(toStored), isComplete: true };
    });

  begin = ({ action, actor, filter }: NewAction): Promise<string> =>
    this.store.write('begin', () => {
      const { audits } = this.database;
      const [id, now] = [String(audits.length + 1), new Date(this.database.now())];
      const open = { done: 0, skipped: 0, outcome: null, error: null, endedAt: null };
      audits.push({ id, action, actor, filter, begunAt: now, touchedAt: now, ...open });
      return id;
    });

  change = (
    audit: string,
    change: Change,
    states: readonly ParkedState[],
    rows: readonly BulkRow[],
  ): Promise<string[] | undefined> =>
    this.counted(change, audit, rows.length, () => {
      const now = this.database.now();
      const found = rows.flatMap(({ rowId }) => this.database.parked.get(rowId) ?? []).filter(isVisible);
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
    });

  /** Ready rows of buckets that nobody leases: nobody can be sending them, but whoever locked them. */
  cancelReady = (audit: string, rows: readonly StoredRow[]): Promise<string[] | undefined> =>
    this.counted('cancelReady', audit, rows.length, () => {
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
    });

  release = (audit: string, filter: { key: string; transport?: number }): Promise<number | undefined> =>
    this.store.write('release', () => {
      if (this.openAudit(audit) === undefined) return undefined;
      const { released } = release(this.database, filter);
      this.count(audit, released, 0);
      return released;
    });

  end = (audit: string, outcome: AuditOutcome, error: string | null): Promise<boolean> =>
    this.store.write('end', () => {
      const row = this.openAudit(audit);
      const now = new Date(this.database.now());
      if (row !== undefined) Object.assign(row, { outcome, error, endedAt: now, touchedAt: now });
      return row !== undefined;
    });

  audit = (before: string | null, limit: number): Promise<AuditRow[]> =>
    this.store.call('audit', () => {
      const rows = this.database.audits.filter(({ id }) => before === null || Number(id) < Number(before));
      return rows.reverse().slice(0, limit);
    });

  /** @internal */ openAudit(audit: string): AuditRow | undefined {
    return this.database.audits.find(({ id, outcome }) => id === audit && outcome === null);
  }

  /** @internal */ count(audit: string, done: number, skipped: number): void {
    const row = this.openAudit(audit);
    if (row !== undefined) Object.assign(row, { done: row.done + done, skipped: row.skipped + skipped });
  }

  /** @internal */ counted(
    name: string,
    audit: string,
    asked: number,
    change: () => readonly ReadyRow[] | Blocked,
  ): Promise<string[] | undefined> {
    const step = (): string[] | Blocked | undefined => {
      if (this.openAudit(audit) === undefined) return undefined;
      const changed = change();
      if (changed instanceof Blocked) return changed;
      const ids = changed.map(({ id }) => id);
      if (name !== 'requeue') freeDedup(this.database, ids);
      this.count(audit, ids.length, asked - ids.length);
      if (ids.length > 0) this.database.write(() => undefined);
      return ids;
    };
    return this.store.unblocked(() => this.store.call(name, step));
  }

  /** @internal */ requeue(row: ParkedRow, now: number): void {
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

function matches({ key, topic, type, olderThan, youngerThan }: RowFilter, row: ReadyRow, now: number): boolean {
  const age = now - row.createdAt;
  if (olderThan !== undefined && age < olderThan) return false;
  if (youngerThan !== undefined && age > youngerThan) return false;
  return (key ?? row.key) === row.key && (topic ?? row.topic) === row.topic && (type ?? row.type) === row.type;
}

const toBulk = ({ parkedId, id, transport, bucket, seq, lastError }: ParkedRow, withErrors: boolean): BulkRow => ({
  ...{ rowId: parkedId, id, transport, bucket, seq },
  error: withErrors ? (lastError ?? '') : '',
});

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
