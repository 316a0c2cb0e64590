import { setMaxListeners } from 'node:events';
import type { OutboxMessage } from '../../outbox-message.js';
import { isUnread } from '../../message/unread-payload.js';
import type { Batch, OnTold } from './batch.types.js';
import type { LargePayloads } from './large-payloads.js';
import type { PoisonDetector, Verdict } from './poison-detector.js';
import type { Publisher } from './publisher.js';

/** From a batch to the broker: what is said about each of its messages comes once, in the order in which it is known. */
export class Delivery {
  constructor(
    readonly publisher: Publisher,
    readonly poison: PoisonDetector,
    readonly payloads: LargePayloads,
    readonly usable: (bucket: number) => boolean,
    readonly kill: AbortSignal,
  ) {
    setMaxListeners(0, kill); // one for each batch
  }

  /** Resolves when all its messages were told. Never rejects. */
  async publish(batch: Batch, onTold: OnTold): Promise<void> {
    const { poison } = this;
    if (poison.noted || poison.isSuspect(batch.messages[0] as OutboxMessage)) await this.try(batch, onTold);
    else await this.deliver(batch, onTold);
  }

  /** @internal */ async deliver(batch: Batch, onTold: OnTold): Promise<void> {
    const verdict = batch.messages.some(isUnread) ? await this.complete(batch) : 'go';
    if (verdict === 'go') await this.publisher.publish(batch.messages, onTold, this.kill);
    else if (verdict === 'later') withdraw(batch, onTold);
    else onTold(0, verdict);
  }

  /** A suspect, and what it does is known even if nobody is left to tell; or the first batch after one. @internal */
  async try(batch: Batch, onTold: OnTold): Promise<void> {
    const message = batch.messages[0] as OutboxMessage;
    let published = false;
    const onVerdict: OnTold = (index, told) => {
      if (told !== 'late') published = told !== 'withdrawn' && told.ok;
      onTold(index, told);
    };
    this.poison.running = true;
    let verdict = await this.poison.begin(message); // before its payload is read: that may end the process, too
    if (verdict === 'go' && !this.may(batch)) verdict = 'later';
    if (verdict === 'go') await this.deliver(batch, onVerdict);
    else if (verdict === 'later') withdraw(batch, onTold);
    else onTold(0, verdict);
    if (!published) await this.poison.end(message);
    this.poison.running = false;
  }

  /** Brings the large payloads, after which the batch may not go any more. @internal */
  async complete(batch: Batch): Promise<Verdict> {
    const verdict = await this.payloads.bring(batch.messages);
    return verdict !== 'go' || this.may(batch) ? verdict : 'later';
  }

  /** Of an orphan the lease may have come back: it is read again first. @internal */
  may({ messages }: Batch): boolean {
    return messages.every((message) => this.usable(message.bucket) && message.state !== 'orphan');
  }
}

/** It was not sent after all, none of it. */
function withdraw({ messages }: Batch, onTold: OnTold): void {
  messages.forEach((_, index) => onTold(index, 'withdrawn'));
}
