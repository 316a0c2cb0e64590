import type { MessageFilter } from '../../lib/store/admin-store.js';
import type { History } from './history.js';
import type { PlannedAct } from './plan.js';
import type { MemoryStore } from './store/memory-store.js';
import type { World } from './world.js';

/** Somebody who requeues, discards, cancels, releases and unlocks while everything runs. */
export class Operator {
  constructor(
    readonly world: World,
    readonly history: History,
    readonly store: MemoryStore,
  ) {}

  begin(acts: readonly PlannedAct[]): void {
    for (const planned of acts) this.world.owe(planned.at, () => void this.act(planned));
  }

  /** @internal */ async act({ what, key, limit }: PlannedAct): Promise<void> {
    const { history, store } = this;
    history.actor = 'operator';
    if (what === 'unlock') {
      const expired = await store.expire();
      return history.tell(`operator: unlock: ${expired.length}`);
    }
    if (what === 'release') {
      const { released } = await store.release({ key });
      if (released > 0) history.touched.add(key);
      return history.tell(`operator: release ${key}: ${released}`);
    }
    const filter: MessageFilter = { key, limit };
    const { done } = await store[what](filter);
    history.tell(`operator: ${what} ${done.map((id) => history.fates.get(id)?.name).join(' ')}`);
  }
}
