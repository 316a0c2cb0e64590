import { within, type Clock } from '../dispatch/clock.js';
import { readLargePayloads } from '../large-payloads.js';
import { withoutSecrets } from '../observe/error-text.js';
import { secretsOf } from '../observe/secrets.js';
import type { OutboxHooks } from '../observe/events.js';
import { OutboxError } from '../outbox.errors.js';
import type { DeadLetterEvent, ResolvedOptions } from '../outbox.options.js';
import type { Death, ParkedStore } from '../store/parked-store.js';
import type { ReadyStore } from '../store/ready-store.js';

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
  /** Letters for which the hook did not end in time: they come last, or nobody behind them would ever be told. */
  readonly late = new Set<string>();

  constructor(
    readonly store: Pick<ParkedStore, 'unannouncedDead' | 'markAnnounced'> & Pick<ReadyStore, 'readPayloads'>,
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
    const isLate = ({ parkedId }: { parkedId: string }): number => Number(this.late.has(parkedId));
    letters.sort((a, b) => isLate(a) - isLate(b));
    const { length } = letters;
    const told: Death[] = [];
    // Taken out one by one: a large payload is in memory for as long as its hook runs.
    for (let letter = letters.shift(); letter !== undefined; letter = letters.shift()) {
      const { parkedId, message, transport, error, died, diedAt } = letter;
      if (!(await readLargePayloads(this.store, transport, [message]))) continue; // an operator was faster
      const name = this.transports.get(transport) ?? String(transport);
      const answer = await this.tell({ message, transport: name, attempts: message.attempts, error, diedAt });
      if (answer === 'told') told.push({ transport, parkedId, died });
      this.note(parkedId, answer === 'late');
      if (answer === 'late') break; // the next ones would take as long
    }
    this.refused = length - told.length;
    if (told.length > 0) await this.store.markAnnounced(told);
    return length === limit && told.length > 0;
  }

  /** @internal */ note(parkedId: string, late: boolean): void {
    if (this.late.size >= MOST) this.late.clear();
    if (late) this.late.add(parkedId);
    else this.late.delete(parkedId);
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
