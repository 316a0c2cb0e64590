import type { Clock } from '../../time/clock.js';
import type { Beat, Instance, LeaseStore, LiveInstance } from '../../store/lease-store.js';
import type { Pauses } from '../pauses/pauses.js';
import type { AbandonedLeases } from './abandoned-leases.js';

/**
 * Who lives: says that this instance does and what it takes part in, and looks who else does. What it says is written when it
 * changes, and three times in the time for which it counts as alive. In between it is only read: a look may be had often.
 */
export class LiveInstances {
  list: LiveInstance[] = [];
  private lookedAt = -Infinity;
  /** Whether something changed that a look under way may have missed. */
  private isNews = true;
  private writtenAt = -Infinity;
  private said = '';
  /** What the database's clock said at the last look, and when that was. */
  private databaseClock = { now: -Infinity, at: 0 };

  constructor(
    readonly store: Pick<LeaseStore, 'beat' | 'living'>,
    readonly clock: Clock,
    readonly owner: string,
    /** Milliseconds for which a word counts. */
    readonly alive: number,
    readonly abandoned: Pick<AbandonedLeases, 'heard'>,
    readonly pauses?: Pick<Pauses, 'heard'>,
  ) {}

  get others(): LiveInstance[] {
    return this.list.filter(({ owner }) => owner !== this.owner);
  }

  /** Milliseconds since the epoch by the database's clock. */
  get now(): number {
    const { now, at } = this.databaseClock;
    return now + this.clock.monotonic() - at;
  }

  /**
   * Milliseconds until it is time to look, at most so many: another one has said nothing for too long, or has news, or
   * this one must say that it lives.
   */
  dueIn(every: number): number {
    if (this.isNews) return 0;
    const now = this.clock.monotonic();
    return Math.min(this.lookedAt + every - now, this.writtenAt + this.alive / 3 - now, this.ends - this.now);
  }

  /** The next look is due, whatever the time, also when one is under way. */
  lookAgain(): void {
    this.isNews = true;
  }

  /** @returns whether that is news for the others */
  async look(word: Omit<Instance, 'owner'>): Promise<boolean> {
    const isSaid = this.said === JSON.stringify(word) && this.clock.monotonic() - this.writtenAt < this.alive / 3;
    if (!isSaid) return this.beat(word);
    this.isNews = false; // what comes from now on may be missed
    const answer = await this.store.living();
    if (!answer.instances.some(({ owner }) => owner === this.owner)) return this.beat(word); // somebody removed it
    await this.take(answer);
    return false;
  }

  /** @returns whether that is news for the others */
  async beat(word: Omit<Instance, 'owner'>): Promise<boolean> {
    const said = JSON.stringify(word);
    this.isNews = false;
    const isNews = said !== this.said;
    await this.take(await this.store.beat({ owner: this.owner, ...word }, this.alive));
    [this.said, this.writtenAt] = [said, this.lookedAt]; // what fails before is news the next time
    return isNews;
  }

  async leave(): Promise<void> {
    this.said = '';
    await this.store.beat({ owner: this.owner, transports: [], info: '' }, 0);
  }

  private async take({ instances, now, pauses }: Beat): Promise<void> {
    this.pauses?.heard(pauses);
    if (instances.length === 0) return this.lookAgain(); // its own word has run out, and nobody says what time it is
    this.list = instances;
    this.lookedAt = this.clock.monotonic();
    // Taken after the answer: what is measured by it seems younger than it is, never older.
    this.databaseClock = { now, at: this.lookedAt };
    await this.abandoned.heard(instances, now);
  }

  private get ends(): number {
    return Math.min(...this.others.map(({ until = Infinity }) => until));
  }
}
