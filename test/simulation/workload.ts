import type { NewMessage } from '../../lib/message.js';
import { newMessage } from '../support/relay.js';
import type { History } from './history.js';
import type { MemoryDatabase } from './store/memory-database.js';
import type { MemoryStore } from './store/memory-store.js';
import { MemoryTransaction } from './store/memory-transaction.js';
import type { Random, World } from './world.js';

/** Writers of a few keys, each strictly one transaction after the other; long ones, large ones, some that roll back. */
export class Workload {
  /** @internal */ running = 0;
  /** @internal */ enqueued = 0;
  /** @internal */ transactions = 0;
  /** @internal */ readonly delays: boolean;
  /** @internal Milliseconds between two messages of a transaction, at most. */
  readonly dawdle: number;

  constructor(
    readonly world: World,
    readonly random: Random,
    readonly history: History,
    readonly database: MemoryDatabase,
    readonly store: MemoryStore,
    readonly buckets: number,
  ) {
    this.delays = random.chance(0.3);
    this.dawdle = random.pick([5, 50, 1_000]);
  }

  get over(): boolean {
    return this.running === 0;
  }

  begin(until: number): void {
    const writers = this.random.whole(1, 6);
    for (let w = 0; w < writers; w += 1) void this.write(this.random.chance(0.15) ? null : `k${w}`, until);
  }

  /** @internal */ async write(key: string | null, until: number): Promise<void> {
    const { world, random } = this;
    this.running += 1;
    const gap = random.pick([200, 1_000, 4_000]);
    const poisonous = random.chance(0.3);
    while (world.now < until) {
      await world.pause(random.between(0, gap));
      await this.transaction(key, poisonous);
    }
    this.running -= 1;
  }

  /** @internal */ async transaction(key: string | null, poisonous: boolean): Promise<void> {
    const { world, random, history } = this;
    const transaction = (this.transactions += 1);
    const tx = new MemoryTransaction(this.database);
    const began = world.now;
    const written: NewMessage[] = [];
    for (let index = 0, count = random.pick([1, 1, 2, 5]); index < count; index += 1) {
      const n = (this.enqueued += 1);
      const id = `00000000-0000-7000-8000-${String(n).padStart(12, '0')}`;
      const refused = poisonous && random.chance(0.1) ? random.pick([1, 2, 9]) : 0;
      const delay = this.delays && random.chance(0.15) ? random.between(0, 10_000) : null;
      const message = newMessage({ id, key, payload: Buffer.from(`${n} ${refused}`), delay }, this.buckets);
      history.fates.set(id, {
        id,
        key,
        name: `${key ?? 'no key'}#${n}`,
        began,
        index,
        transaction,
        committed: undefined,
        rolledBack: false,
        taken: [],
        refused: 0,
        dead: false,
        forgiven: 0,
        removed: false,
        scheduled: delay !== null,
      });
      await this.store.insert(tx, [message]);
      written.push(message);
      if (random.chance(0.5)) await world.pause(random.between(0, this.dawdle));
    }
    await world.pause(random.chance(0.1) ? random.between(0, 3_000) : random.between(0, 20));
    const rollback = random.chance(0.1);
    await (rollback ? tx.rollback() : tx.commit());
    for (const { id } of written) {
      const fate = history.fates.get(id);
      if (fate === undefined) continue;
      if (rollback) fate.rolledBack = true;
      else fate.committed = world.now;
    }
    history.tell(
      `${rollback ? 'rolled back' : 'committed'} ${written.map(({ id }) => history.fates.get(id)?.name).join(' ')}`,
    );
    await world.pause(random.between(0.01, 2)); // the answer
  }
}
