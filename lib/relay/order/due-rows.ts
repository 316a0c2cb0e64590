import type { Roles } from '../../store/outbox-store.js';
import type { DueRow, PassedOver } from '../../store/parked-store.js';
import type { TransportRelayDependencies } from '../transport-parts.js';

export interface Due {
  /** May be taken now. */
  readonly free: readonly DueRow[];
  /** Whether anything is due. */
  readonly some: boolean;
  readonly more: boolean;
  readonly nextIn: number | null;
}

/**
 * Finds due rows that may be taken now. What is due of a key that is busy, or closed for as long as a row cannot be written,
 * stays in front: a page of nothing else hides what is due of all others, and a larger one follows.
 */
export class DueRows {
  /** When larger pages were looked through in vain: passes may follow each other fast. */
  private lookedPastAt = -Infinity;
  /** By key, or by id without one: what is asked for again in a while. */
  readonly passedOver = new Map<string, PassedOver>();
  passedOverAt = -Infinity;

  constructor(
    readonly relay: Pick<TransportRelayDependencies<Roles<'parked'>>, 'id' | 'store' | 'clock' | 'options'>,
    readonly mayTake: (row: DueRow) => boolean,
    readonly continueKey: (bucket: number, key: string) => void,
  ) {}

  /** Somebody else had these locked. Until the next poll they, and what is due behind them, are left alone. */
  passOver(rows: readonly PassedOver[] = []): void {
    if (this.passedOver.size === 0) this.passedOverAt = this.relay.clock.monotonic();
    for (const row of rows) this.passedOver.set(nameOf(row), row);
  }

  forget(bucket: number): void {
    for (const [name, row] of this.passedOver) if (row.bucket === bucket) this.passedOver.delete(name);
  }

  askAgain(): void {
    if (this.relay.clock.monotonic() - this.passedOverAt < this.relay.options.pollInterval) return;
    for (const { bucket, key } of this.passedOver.values()) if (key !== null) this.continueKey(bucket, key);
    this.passedOver.clear();
  }

  async find(buckets: readonly number[], limit: number): Promise<Due> {
    const { id, store, clock, options } = this.relay;
    this.askAgain();
    for (let page = limit; ; page = Math.min(MOST_DUE, Math.max(1_000, page * 4))) {
      const { rows, nextIn } = await store.parked.due(id, buckets, page);
      const free: DueRow[] = [];
      for (const row of rows)
        if (free.length < limit && !this.passedOver.has(nameOf(row)) && this.mayTake(row)) free.push(row);
      const more = rows.length >= page;
      const found = { free, some: rows.length > 0, more, nextIn };
      if (free.length > 0 || options.ordering === 'global') return found;
      const now = clock.monotonic();
      if (!more || page >= MOST_DUE) {
        if (page > limit) this.lookedPastAt = now;
        return found;
      }
      if (page === limit && now - this.lookedPastAt < options.pollInterval) return found;
    }
  }
}

const nameOf = ({ parkedId, key }: PassedOver): string => (key === null ? `id ${parkedId}` : `key ${key}`);

/** Due rows that one pass looks at: their places and keys. */
const MOST_DUE = 100_000;
