import { within, type Clock } from '../dispatch/clock.js';
import { withoutSecrets } from '../observe/error-text.js';
import { secretsOf } from '../observe/secrets.js';
import type { OutboxHooks } from '../observe/events.js';
import { OutboxError } from '../outbox.errors.js';
import type { DeadLetterEvent, ResolvedOptions } from '../outbox.options.js';
import type { ParkedStore } from '../store/parked-store.js';

/** Deaths that are told in one pass, beside those that were refused before. */
const BATCH = 100;
const MOST = 2_000;

/**
 * Calls the dead-letter hook at least once per death: after the death is committed, and again when the hook rejected or
 * the process died before the row was marked.
 */
export class DeadLetters {
  /** Letters that the hook refused in the last pass: the next one looks beyond them. */
  refused = 0;

  constructor(
    readonly store: Pick<ParkedStore, 'unannouncedDead' | 'markAnnounced'>,
    readonly hook: NonNullable<ResolvedOptions['deadLetter']>,
    readonly transports: ReadonlyMap<number, string>,
    readonly hooks: OutboxHooks,
    readonly clock: Clock,
    /** Milliseconds for one letter: a hook that never ends must not keep the others from being told. */
    readonly timeout: number,
  ) {}

  /** @returns whether more may be waiting */
  async runOnce(): Promise<boolean> {
    const limit = Math.min(BATCH + this.refused, MOST);
    const letters = await this.store.unannouncedDead([...this.transports.keys()], limit);
    const told: string[] = [];
    for (const { parkedId, message, transport, error, diedAt } of letters) {
      const name = this.transports.get(transport) ?? String(transport);
      const letter = { message, transport: name, attempts: message.attempts, error, diedAt };
      const answer = await this.tell(letter);
      if (answer === 'told') told.push(parkedId);
      if (answer === 'late') break; // the next ones would take as long
    }
    this.refused = letters.length - told.length;
    if (told.length > 0) await this.store.markAnnounced(told);
    return letters.length === limit && told.length > 0;
  }

  /** @internal */ async tell(letter: DeadLetterEvent): Promise<'told' | 'refused' | 'late'> {
    try {
      if (await within(this.clock, this.timeout, Promise.resolve(this.hook(letter)))) return 'told';
      throw new HookTimeout(this.timeout);
    } catch (error) {
      const shown = withoutSecrets(error, secretsOf([letter.message]));
      this.hooks.emit('error', { operation: 'deadLetter', error: shown, retryIn: null });
      return error instanceof HookTimeout ? 'late' : 'refused';
    }
  }
}

class HookTimeout extends OutboxError {
  constructor(ms: number) {
    super('TIMEOUT', `The deadLetter hook did not end within ${ms} ms; the letter is told again.`);
  }
}
