import { Operator as StoreOperator } from '../../lib/testing/store-contract/harness.js';
import type { History } from './history.js';
import type { PlannedAct } from './plan.js';
import { isVisible } from './store/memory-rows.js';
import type { MemoryStore } from './store/memory-store.js';
import type { World } from './world.js';

/** Somebody who requeues, discards, cancels, releases and unlocks while everything runs. */
export class Operator {
  /** @internal */ readonly at: StoreOperator;

  constructor(
    readonly world: World,
    readonly history: History,
    readonly store: MemoryStore,
  ) {
    this.at = new StoreOperator(store, store.database.settings);
  }

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
      const released = await this.at.release(key);
      if (released > 0) history.touched.add(key);
      return history.tell(`operator: release ${key}: ${released}`);
    }
    const ids = this.named(key, limit);
    if (ids.length === 0) return;
    const { changed } = await this.at[what]({ ids });
    history.tell(`operator: ${what} ${changed.map((id) => history.fates.get(id)?.name).join(' ')}`);
  }

  /** @internal The first of a key that wait, as its list has them. */
  named(key: string, limit: number): string[] {
    const { database } = this.store;
    const ready = [...database.ready.values()].flatMap((rows) => [...rows.values()]).filter(isVisible);
    const rows = [...database.parkedRows(), ...ready].filter((row) => row.key === key);
    return [...new Set(rows.map(({ id }) => id))].slice(0, limit);
  }
}
