import { setMaxListeners } from 'node:events';
import type { OutboxMessage } from '../../outbox-message.js';
import { isUnread } from '../../message/unread-payload.js';
import { pause } from '../../time/clock.js';
import type { Roles } from '../../store/outbox-store.js';
import type { TransportRelayDependencies } from '../transport-parts.js';
import type { Batch, OnAnswer, Verdict } from './batch.types.js';
import type { LargePayloads } from './large-payloads.js';
import type { Publisher } from './publisher.js';
import type { Trial } from './trial.js';

/** From a batch to the broker: what is said about each of its messages comes once, in the order in which it is known. */
export class Delivery {
  constructor(
    private readonly deps: TransportRelayDependencies<Roles<'leases'>>,
    private readonly publisher: Publisher,
    private readonly trial: Trial,
    private readonly payloads: LargePayloads,
    private readonly usable: (bucket: number) => boolean,
    private readonly kill: AbortSignal,
  ) {
    setMaxListeners(0, kill); // one for each batch
  }

  /** Resolves when all its messages were answered. Never rejects. */
  async publish(batch: Batch, onAnswer: OnAnswer): Promise<void> {
    const { trial } = this;
    if (trial.noted || trial.isSuspect(batch.messages[0] as OutboxMessage)) await this.try(batch, onAnswer);
    else await this.deliver(batch, onAnswer);
  }

  private async deliver(batch: Batch, onAnswer: OnAnswer): Promise<void> {
    const verdict = batch.messages.some(isUnread) ? await this.complete(batch) : 'go';
    if (verdict === 'go') await this.publisher.publish(batch.messages, onAnswer, this.kill);
    else if (verdict === 'later') withdraw(batch, onAnswer);
    else onAnswer(0, verdict);
  }

  /** A suspect, and what it does is known even if nobody is left to tell; or the first batch after one. */
  private async try(batch: Batch, onAnswer: OnAnswer): Promise<void> {
    const message = batch.messages[0] as OutboxMessage;
    let published = false;
    const onVerdict: OnAnswer = (index, answer) => {
      if (answer !== 'late') published = answer !== 'withdrawn' && answer.ok;
      onAnswer(index, answer);
    };
    const { trial } = this;
    trial.running = true;
    const isCharged = trial.isCharged(message);
    // Before its payload is read: that may end the process, too.
    const isNoted = await this.note(message, isCharged || !trial.isSuspect(message) ? null : message.id);
    if (!isNoted || !this.may(batch)) withdraw(batch, onAnswer);
    else if (isCharged) onAnswer(0, trial.charge(message));
    else await this.deliver(batch, onVerdict);
    // Should the process end before its next try, it was not by this message.
    if (!published && trial.noted) await this.note(message, null);
    trial.running = false;
  }

  /** @returns whether the lease's row names the message now: the one that goes, and no other; `null`: none */
  private async note({ bucket }: OutboxMessage, named: string | null): Promise<boolean> {
    const { leases, store, id, hooks, clock } = this.deps;
    const lease = leases.lease(id, bucket);
    if (lease === undefined) return false;
    this.trial.noted = true;
    if (named !== null) this.trial.tried = named;
    try {
      if (await store.leases.noteTrial(leases.owner, lease, named)) {
        this.trial.noted = named !== null;
        return true;
      }
    } catch (error) {
      hooks.emit('error', { operation: 'lease', error, retryIn: PAUSE });
    }
    await pause(clock, PAUSE); // it would be read again at once
    return false;
  }

  /** Brings the large payloads, after which the batch may not go any more. */
  private async complete(batch: Batch): Promise<Verdict> {
    const verdict = await this.payloads.bring(batch.messages);
    return verdict !== 'go' || this.may(batch) ? verdict : 'later';
  }

  /** A lease that was lost may have come back: it is read again first. */
  private may({ messages }: Batch): boolean {
    return messages.every((message) => this.usable(message.bucket) && message.state !== 'leaseLost');
  }
}

/** It was not sent after all, none of it. */
function withdraw({ messages }: Batch, onAnswer: OnAnswer): void {
  messages.forEach((_, index) => onAnswer(index, 'withdrawn'));
}

/** Milliseconds. */
const PAUSE = 200;
