import type { OutboxHooks } from '../observe/events.js';
import type { DeadLetterEvent, ResolvedOptions } from '../outbox.options.js';
import type { ParkedStore } from '../store/parked-store.js';

/** Deaths that are told in one pass. */
const BATCH = 100;

/**
 * Calls the dead-letter hook at least once per death: after the death is committed, and again when the hook rejected or
 * the process died before the row was marked.
 */
export class DeadLetters {
  constructor(
    readonly store: Pick<ParkedStore, 'unannouncedDead' | 'markAnnounced'>,
    readonly hook: NonNullable<ResolvedOptions['deadLetter']>,
    readonly transports: ReadonlyMap<number, string>,
    readonly hooks: OutboxHooks,
  ) {}

  /** @returns whether more may be waiting */
  async runOnce(): Promise<boolean> {
    const letters = await this.store.unannouncedDead([...this.transports.keys()], BATCH);
    const told: string[] = [];
    for (const { parkedId, message, transport, error, diedAt } of letters) {
      const name = this.transports.get(transport) ?? String(transport);
      const letter = { message, transport: name, attempts: message.attempts, error, diedAt };
      if (await this.tell(letter)) told.push(parkedId);
    }
    if (told.length > 0) await this.store.markAnnounced(told);
    return told.length === BATCH;
  }

  /** @internal */ async tell(letter: DeadLetterEvent): Promise<boolean> {
    try {
      await this.hook(letter);
      return true;
    } catch (error) {
      this.hooks.emit('error', { operation: 'deadLetter', error, retryIn: null });
      return false;
    }
  }
}
