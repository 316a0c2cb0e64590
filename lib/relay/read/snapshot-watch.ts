import type { Clock } from '../../time/clock.js';
import { durationText } from '../../time/duration.js';
import { errorText } from '../../observe/redact/error-text.js';
import type { OutboxHooks } from '../../observe/events.js';
import type { DiagnoseStore, HeldSnapshot, HeldSnapshotReport } from '../../store/diagnose/diagnose-store.js';
import { waitedTooLong } from '../../store/database-errors.js';

export interface HeldSnapshotStatus {
  /** Who holds it, and since when, one sentence. */
  readonly text: string;
  /** Whether reading takes so long for it that messages are late. */
  readonly isSlow: boolean;
}

/** Told what reads take. */
export type ReadCost = Pick<SnapshotWatch, 'took' | 'walked' | 'measure'>;

/**
 * Names who holds an old snapshot, once that costs something: a server cannot remove rows that such a snapshot may still see,
 * and reads walk over them. Nobody waits for the answer, and a look that fails tells nothing.
 */
export class SnapshotWatch {
  /** Milliseconds of about the last minute that reads took beyond what they brought, and when that was summed up. */
  private cost = { sum: 0, at: 0 };
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
  ) {}

  /** A statement that returned so many rows. */
  took(ms: number, rows = 0): void {
    this.walked(ms - ORDINARY - rows * A_ROW);
  }

  /** A statement that returns messages. One that is cancelled for its time returned none. */
  async measure<T extends { readonly messages: readonly unknown[] }>(work: () => Promise<T>): Promise<T> {
    const began = this.clock.monotonic();
    try {
      const result = await work();
      this.took(this.clock.monotonic() - began, result.messages.length);
      return result;
    } catch (error) {
      if (waitedTooLong(error)) this.took(this.clock.monotonic() - began);
      throw error;
    }
  }

  /** So long over what is gone. */
  walked(ms: number): void {
    if (ms > 0) this.cost = { sum: this.recent + ms, at: this.clock.monotonic() };
    this.look();
  }

  /** What is older counts less and less. */
  private get recent(): number {
    const { sum, at } = this.cost;
    return sum * 2 ** ((at - this.clock.monotonic()) / HALF);
  }

  status(): HeldSnapshotStatus | null {
    const isSlow = this.recent >= SLOW;
    if (this.held !== undefined) return { text: this.text(this.held.holder, this.held.since), isSlow };
    if (this.needs === undefined || !isSlow) return null;
    const text = `Reading ${this.table} is slow, perhaps for rows that are gone and that a snapshot keeps. Who holds one is hidden from this login: grant ${this.needs}`;
    return { text, isSlow };
  }

  private look(): void {
    if (this.looking !== undefined || this.store === undefined) return;
    if (this.recent < FELT && this.held === undefined) return;
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
/** Milliseconds that a statement may take, on a busy server or one that is far away; and for each row. */
const ORDINARY = 50;
const A_ROW = 0.2;
/** Milliseconds after which a cost counts half. A turn of the full scan comes every 45 s. */
const HALF = 45_000;
/** Milliseconds after which somebody looks why: some 100,000 rows that are gone; and for which messages are late: a tenth of the time. */
const [FELT, SLOW] = [100, 6_000];
