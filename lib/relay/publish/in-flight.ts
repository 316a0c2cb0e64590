import type { OutboxMessage } from '../../outbox-message.js';
import type { Batch } from './batch.types.js';

/** What is being published now, and which messages share no batch. Each relay has one. */
export class InFlight {
  readonly batches = new Set<Batch>();
  /** Messages of these batches that have no result yet. */
  messages = 0;
  /** Ids of messages that are published by themselves: a neighbour was killed with its batch, and one of them did it. The latest last. */
  readonly alone = new Set<string>();
  /** So are these, by id: of which bucket. One of them may have ended the process of the bucket's former owner. */
  readonly suspects = new Map<string, number>();

  /** Batches so far, which numbers them. @internal */
  begun = 0;

  begin(batch: Batch): void {
    this.begun += 1;
    this.batches.add(batch);
    this.messages += batch.messages.length;
    for (const message of batch.messages) {
      message.state = 'out';
      message.batch = this.begun;
    }
  }

  /** One message of a batch has its result. */
  told(): void {
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

  goesAlone({ id }: OutboxMessage): boolean {
    return (this.alone.size > 0 && this.alone.has(id)) || (this.suspects.size > 0 && this.suspects.has(id));
  }

  markAlone({ id }: OutboxMessage): void {
    this.alone.delete(id);
    if (this.alone.size >= MAX_ALONE) this.alone.delete(this.alone.values().next().value as string);
    this.alone.add(id);
  }

  /** It has a result, or is not ours any more. */
  acquit({ id }: OutboxMessage): void {
    if (this.alone.size > 0) this.alone.delete(id);
    if (this.suspects.size > 0) this.suspects.delete(id);
  }
}

const isUnresolved = ({ state }: OutboxMessage): boolean => state === 'out' || state === 'orphan';

/** A few broken batches; beyond it, the oldest may share a batch once more. */
const MAX_ALONE = 5_000;
