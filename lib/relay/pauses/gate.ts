import type { OutboxHooks } from '../../observe/events.js';
import { isWhole, nameOfPause, type Pause } from '../../store/pauses/pause-store.js';
import type { WakeUps } from '../wake-ups.js';
import type { Pauses } from './pauses.js';

/** What a pause does to its relay. */
interface Paused {
  readonly deps: {
    readonly id: number;
    readonly name: string;
    readonly hooks: OutboxHooks;
    readonly leases: { readonly pauses: Pauses };
  };
  readonly outage: { readonly absence: { resumed(pauses: readonly Pause[]): void } };
  /** What waits in memory is given back. */
  giveUpWaiting(): void;
  readonly wakeUps: WakeUps;
}

/**
 * The gate of one transport: while all of it is paused, nothing is read and nothing is begun. What is in flight is settled. It
 * tells of each pause and of its end, once. While a topic or a key is paused, the gate is open: its messages are put off one by one.
 */
export class PauseGate {
  /** As they were told. */
  private told: readonly Pause[] = [];

  constructor(readonly relay: Paused) {
    relay.deps.leases.pauses.listen(relay.deps.id, (pauses) => this.changed(pauses));
  }

  get isClosed(): boolean {
    const { leases, id } = this.relay.deps;
    return leases.pauses.isPaused(id);
  }

  /** By whom, since when and why; `null`: it is open. */
  get pause(): Pause | null {
    const { leases, id } = this.relay.deps;
    return leases.pauses.of(id) ?? null;
  }

  private changed(pauses: readonly Pause[]): void {
    const { relay } = this;
    const [before, now] = [new Set(this.told.map(nameOfPause)), new Set(pauses.map(nameOfPause))];
    const ended = this.told.filter((pause) => !now.has(nameOfPause(pause)));
    const begun = pauses.filter((pause) => !before.has(nameOfPause(pause)));
    this.told = pauses;
    for (const pause of ended) relay.deps.hooks.emit('resumed', this.eventOf(pause));
    for (const pause of begun) relay.deps.hooks.emit('paused', this.eventOf(pause));
    const parts = ended.filter((pause) => !isWhole(pause));
    if (parts.length > 0) relay.outage.absence.resumed(parts);
    if (this.isClosed) return relay.giveUpWaiting();
    relay.wakeUps.ready();
    relay.wakeUps.parked();
  }

  private eventOf({ topic, key, actor, reason, since }: Pause) {
    return { transport: this.relay.deps.name, topic, key, by: actor, reason, since };
  }
}
