import type { Clock } from '../../time/clock.js';
import { durationText } from '../../time/duration.js';
import { errorText } from '../../observe/redact/error-text.js';
import type { OutboxHooks } from '../../observe/events.js';
import type { DiagnoseStore, HeldSnapshot, HeldSnapshotReport } from '../../store/diagnose/diagnose-store.js';
import { ReadCost } from './read-cost.js';

export interface HeldSnapshotStatus {
  /** Who holds it, and since when, one sentence. */
  readonly text: string;
  /** Whether reading takes so long for it that messages are late. */
  readonly isSlow: boolean;
}

/**
 * Names who holds an old snapshot, once that costs something: a server cannot remove rows that such a snapshot may still see,
 * and reads walk over them. Nobody waits for the answer, and a look that fails tells nothing.
 */
export class SnapshotWatch {
  readonly cost: ReadCost;
  private held: { readonly holder: HeldSnapshot; readonly since: number } | undefined;
  /** The oldest one that was seen, told or not. */
  private seen: { readonly transaction: string; readonly since: number } | undefined;
  /** A right without which nobody can be named. */
  private needs: string | undefined;
  private lookedAt = -Infinity;
  private looking: Promise<void> | undefined;

  constructor(
    readonly store: DiagnoseStore | undefined,
    readonly clock: Clock,
    readonly hooks: Pick<OutboxHooks, 'emit'>,
    /** The table that is read, for people. */
    readonly table: string,
    /** Milliseconds for which a snapshot must be held to be told of. */
    readonly longest = LONGEST,
  ) {
    this.cost = new ReadCost(
      () => clock.monotonic(),
      () => this.look(),
    );
  }

  status(): HeldSnapshotStatus | null {
    const { isSlow } = this.cost;
    if (this.held !== undefined) return { text: this.text(this.held.holder, this.held.since), isSlow };
    if (this.needs === undefined || !isSlow) return null;
    const text = `Reading ${this.table} is slow, perhaps for rows that are gone and that a snapshot keeps. Who holds one is hidden from this login: grant ${this.needs}`;
    return { text, isSlow };
  }

  private look(): void {
    if (this.looking !== undefined || this.store === undefined) return;
    if (!this.cost.isFelt && this.held === undefined) return;
    const now = this.clock.monotonic();
    if (now - this.lookedAt < LOOK_EVERY) return;
    this.lookedAt = now;
    this.looking = this.store
      .ask('heldSnapshot')
      .then((report) => this.found(report))
      .catch(() => undefined)
      .finally(() => (this.looking = undefined));
  }

  private found(report: HeldSnapshotReport): void {
    this.needs = report !== undefined && 'needs' in report ? report.needs : undefined;
    const holder = report === undefined || 'needs' in report ? undefined : report;
    const since = this.sinceOf(holder);
    const isOld = holder !== undefined && this.clock.monotonic() - since >= this.longest;
    const next = isOld && (holder.dead ?? Infinity) >= FEW ? { holder, since } : undefined;
    const before = this.held;
    this.held = next;
    if (before?.holder.transaction === next?.holder.transaction) return;
    if (before !== undefined) this.tell('snapshotReleased', before.holder, before.since);
    if (next !== undefined) this.tell('snapshotHeld', next.holder, next.since);
  }

  /** Where the server does not say it: when it was first seen. Monotonic. */
  private sinceOf(holder: HeldSnapshot | undefined): number {
    const now = this.clock.monotonic();
    if (holder === undefined) {
      this.seen = undefined;
      return now;
    }
    const { transaction, age } = holder;
    if (this.seen?.transaction !== transaction) this.seen = { transaction, since: now };
    return age === undefined ? this.seen.since : now - age;
  }

  private tell(name: 'snapshotHeld' | 'snapshotReleased', holder: HeldSnapshot, since: number): void {
    const heldFor = this.clock.monotonic() - since;
    this.hooks.emit(name, { server: holder.server, table: this.table, holder: nameOf(holder), heldFor });
  }

  private text(holder: HeldSnapshot, since: number): string {
    const heldFor = inWords(this.clock.monotonic() - since);
    return `${holder.server} has kept dead rows of ${this.table} for ${heldFor}: ${nameOf(holder)} holds a snapshot`;
  }
}

/** What others call their application may be anything. */
function nameOf({ holder, details }: HeldSnapshot): string {
  return errorText(details.length === 0 ? holder : `${holder} (${details.join(', ')})`);
}

/** Seconds at first, then minutes. */
function inWords(ms: number): string {
  const unit = ms < 120_000 ? 1_000 : 60_000;
  return String(durationText(Math.max(1, Math.round(ms / unit)) * unit));
}

/** Milliseconds between two looks, and for which a snapshot is nothing special. */
const LOOK_EVERY = 15_000;
const LONGEST = 30_000;
/** Dead rows that wait for the next vacuum anyhow. */
const FEW = 10_000;
