import type { Roles } from '../../store/outbox-store.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { placeOnly } from '../../message/unread-payload.js';
import { isOfTheRow } from '../../store/database-errors.js';
import { tellPublished } from '../settle/tell-published.js';
import type { TransportRelayDependencies } from '../relay.types.js';

/** Messages that wait; more of them stay dead. */
const MOST = 1_000;
/** Milliseconds until one that could not be written is tried again; then twice as long. */
const [FIRST_PAUSE, LONGEST_PAUSE] = [1_000, 60_000];

/**
 * Dead messages whose call ended well all the same, until their rows are gone. They are written one by one: one that the database
 * refuses stays dead and keeps no other, and one that somebody else has locked is asked for again after a pause.
 */
export class LateSuccesses {
  private readonly waiting: OutboxMessage[] = [];
  private pause = FIRST_PAUSE;
  private notBefore = -Infinity;

  constructor(readonly deps: TransportRelayDependencies<Roles<'ready'>>) {}

  add(message: OutboxMessage): void {
    if (this.waiting.length < MOST) this.waiting.push(placeOnly(message));
  }

  /** Not while their rows are locked by us. Never rejects. @returns how many were written */
  async settle(): Promise<number> {
    const { store, id, options, clock } = this.deps;
    if (clock.monotonic() < this.notBefore) return 0;
    let written = 0;
    for (let message = this.waiting[0]; message !== undefined; message = this.waiting[0]) {
      try {
        await store.ready.settle(id, [message], options.onPublished);
        this.pause = FIRST_PAUSE;
        written += 1;
        tellPublished(this.deps, [message]);
      } catch (error) {
        if (!this.isRefused(error)) break;
      }
      this.waiting.shift();
    }
    return written;
  }

  /** @returns whether it is of no use to try it again */
  private isRefused(error: unknown): boolean {
    const { hooks, clock } = this.deps;
    const isFinal = isOfTheRow(error);
    hooks.emit('error', { operation: 'settle', error, retryIn: isFinal ? null : this.pause });
    if (isFinal) return true;
    this.notBefore = clock.monotonic() + this.pause;
    this.pause = Math.min(LONGEST_PAUSE, 2 * this.pause);
    return false;
  }
}
