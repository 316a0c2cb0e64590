import { isWhole, nameOfPause, type Pause } from '../../store/pauses/pause-store.js';
import type { TransportRelayDependencies } from '../transport-parts.js';

/**
 * The gate of one transport: while all of it is paused, nothing is read and nothing is begun. What is in flight is settled. It
 * tells of each pause and of its end, once. While a topic or a key is paused, the gate is open: its messages are put off one by one.
 */
export class PauseGate {
  /** As they were told. */
  private told: readonly Pause[] = [];

  constructor(private readonly deps: Pick<TransportRelayDependencies<unknown>, 'id' | 'name' | 'hooks' | 'leases'>) {}

  get isClosed(): boolean {
    return this.deps.leases.pauses.isPaused(this.deps.id);
  }

  /** By whom, since when and why; `null`: it is open. */
  get pause(): Pause | null {
    return this.deps.leases.pauses.of(this.deps.id) ?? null;
  }

  /**
   * Tells of those that are new, and of those that are over.
   * @returns of the latter those of a topic or a key: what was put off for them falls due
   */
  changed(pauses: readonly Pause[]): readonly Pause[] {
    const { hooks } = this.deps;
    const [before, now] = [new Set(this.told.map(nameOfPause)), new Set(pauses.map(nameOfPause))];
    const ended = this.told.filter((pause) => !now.has(nameOfPause(pause)));
    const begun = pauses.filter((pause) => !before.has(nameOfPause(pause)));
    this.told = pauses;
    for (const pause of ended) hooks.emit('resumed', this.eventOf(pause));
    for (const pause of begun) hooks.emit('paused', this.eventOf(pause));
    return ended.filter((pause) => !isWhole(pause));
  }

  private eventOf({ topic, key, actor, reason, since }: Pause) {
    return { transport: this.deps.name, topic, key, by: actor, reason, since };
  }
}
