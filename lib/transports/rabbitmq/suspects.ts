import type { OutboxMessage } from '../../outbox-message.js';

const MAX_SUSPECTS = 10_000;

/** Ids of messages that may make the broker close a channel. Bounded: the oldest are forgotten, and caught again. */
export class Suspects {
  private readonly ids = new Set<string>();

  add(id: string): void {
    this.ids.add(id);
    if (this.ids.size > MAX_SUSPECTS) this.ids.delete(this.ids.values().next().value!);
  }

  delete(id: string): void {
    this.ids.delete(id);
  }

  includesAny(batch: readonly OutboxMessage[]): boolean {
    return this.ids.size > 0 && batch.some(({ id }) => this.ids.has(id));
  }
}
