import type { OutboxMessage } from '../outbox-message.js';
import type { Publish } from '../options/transport-wrapper.js';
import { behind } from './decryption-failures.js';
import type { PublishContext, PublishFailure, PublishResult } from '../transports/transport.js';

/** A message as the transport gets it, or why it does not. */
export type Opened = OutboxMessage | PublishFailure;

/**
 * A batch whose messages become ready to be sent one by one. Where runs of a key are published as one, what follows a message
 * that cannot be opened in its run is not sent, and what follows one that is not open yet waits for it.
 */
export class DecryptedBatch {
  /** Of each message, by its index; `undefined`: not yet. */
  private readonly opened: (Opened | undefined)[];
  /** By index: its result is known, or the transport's to tell. */
  private readonly handed: boolean[];

  constructor(
    private readonly batch: readonly OutboxMessage[],
    private readonly atomicRuns: boolean,
    private readonly send: Publish,
  ) {
    this.opened = batch.map(() => undefined);
    this.handed = batch.map(() => false);
  }

  set(index: number, opened: Opened): void {
    this.opened[index] = opened;
  }

  get isWhole(): boolean {
    return this.handed.every(Boolean);
  }

  /**
   * Publishes what is open and was not yet; results go by the indexes of the batch that was given.
   * @param left milliseconds for the whole batch; throws when they are over
   */
  async publish({ signal, report }: PublishContext, left: () => number): Promise<void> {
    const { indexes, failures } = this.next();
    const messages = indexes.map((index) => this.opened[index] as OutboxMessage);
    const toldOf = new Set<number>();
    const told = (at: number, result: PublishResult): void => {
      const index = indexes[at];
      toldOf.add(at);
      if (index !== undefined) report(index, result);
    };
    if (messages.length > 0) {
      signal.throwIfAborted();
      const results = await this.send(messages, { signal, timeout: left(), report: told });
      results?.forEach((result, at) => toldOf.has(at) || told(at, result));
    }
    // Afterwards: that others get through says that the transport is there.
    for (const [index, failure] of failures) report(index, failure);
  }

  private next(): { readonly indexes: number[]; readonly failures: Map<number, PublishFailure> } {
    const indexes: number[] = [];
    const failures = new Map<number, PublishFailure>();
    const held = new Map<string, 'failed' | 'closed'>();
    this.opened.forEach((one, index) => {
      const { key } = this.batch[index] as OutboxMessage;
      const before = key === null ? undefined : held.get(key);
      const isFailure = one !== undefined && 'ok' in one;
      const handed = this.handed[index] === true;
      if (key !== null && this.atomicRuns && before === undefined && (isFailure || one === undefined))
        held.set(key, isFailure ? 'failed' : 'closed');
      if (handed || one === undefined || before === 'closed') return;
      this.handed[index] = true;
      if (isFailure) failures.set(index, one);
      else if (before === 'failed') failures.set(index, behind());
      else indexes.push(index);
    });
    return { indexes, failures };
  }
}
