import type { MessageFilter } from '../../lib/store/admin-store.js';
import type { History } from './history.js';
import type { MemoryStore } from './store/memory-store.js';
import type { Random, World } from './world.js';

/** Somebody who requeues, discards, cancels and releases while everything runs. */
export class Operator {
  /** Of a key that was released, or of messages that were requeued: their order is what the operator made it. */
  readonly touched = new Set<string>();

  constructor(
    readonly world: World,
    readonly random: Random,
    readonly history: History,
    readonly store: MemoryStore,
    readonly keys: number,
  ) {}

  async work(until: number): Promise<void> {
    const { world, random } = this;
    while (world.now < until) {
      await world.pause(random.between(200, 6_000));
      await this.act(`k${random.whole(0, this.keys)}`, random.pick(['requeue', 'discard', 'cancel', 'release']));
    }
  }

  /** @internal */ async act(key: string, what: 'requeue' | 'discard' | 'cancel' | 'release'): Promise<void> {
    const { history, store } = this;
    const filter: MessageFilter = { key, limit: this.random.whole(1, 5) };
    if (what === 'release') {
      const { released } = await store.release({ key });
      if (released > 0) this.touched.add(key);
      history.tell(`operator: release ${key}: ${released}`);
      return;
    }
    const { done } = await store[what](filter);
    history.tell(`operator: ${what} ${done.map((id) => history.fates.get(id)?.name).join(' ')}`);
    for (const id of done) {
      const fate = history.fates.get(id);
      if (fate === undefined) continue;
      if (what === 'requeue') fate.forgiven += fate.refused - fate.forgiven;
      else fate.removed = true;
    }
  }
}
