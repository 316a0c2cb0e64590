import type { OutboxMessage } from '../../outbox-message.js';
import type { Batch } from './batch.types.js';

/** What is being published now. Each relay has one. */
export class InFlight {
  readonly batches = new Set<Batch>();
  /** Messages of these batches that have no result yet. */
  messages = 0;
  /** Batches so far, which numbers them. */
  private begun = 0;

  begin(batch: Batch): void {
    this.begun += 1;
    this.batches.add(batch);
    this.messages += batch.messages.length;
    for (const message of batch.messages) {
      message.state = 'out';
      message.batch = this.begun;
    }
  }

  /** One message of a batch has its answer. */
  answered(): void {
    this.messages -= 1;
  }

  end(batch: Batch): void {
    this.batches.delete(batch);
  }

  /** What is out now is one single message: if that fails, no neighbour did it. */
  get onlyOne(): boolean {
    const [batch, more] = this.batches;
    return more === undefined && batch?.messages.length === 1;
  }

  /** Messages of these buckets whose unit is not through, whoever has their lease. */
  *unresolved(which: (bucket: number) => boolean): Generator<OutboxMessage> {
    for (const { messages } of this.batches) {
      for (const message of messages) if (isUnresolved(message) && which(message.bucket)) yield message;
    }
  }
}

const isUnresolved = ({ state }: OutboxMessage): boolean => state === 'out' || state === 'leaseLost';
