import type { Roles } from '../../store/outbox-store.js';
import { isUnread } from '../../message/unread-payload.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { errorCopy, errorText } from '../../observe/redact/error-text.js';
import { STATEMENT_TIMEOUT, subjectOf } from '../../store/database-errors.js';
import { TOO_LARGE } from '../../store/limits.js';
import { pause } from '../../time/clock.js';
import type { TransportRelayDependencies } from '../transport-parts.js';
import type { Failure, Verdict } from './batch.types.js';
import { readLargePayloads } from './read-large-payloads.js';

/**
 * Brings the large payloads of a batch when it is about to go. A database that does not answer is told, and nobody is to
 * blame. One payload that cannot be read must not keep its neighbours: those that are large go one by one from then on,
 * and one whose own read fails again and again, while the reads in between that return its row succeed, has failed.
 */
export class LargePayloads {
  /** By id: reads of nothing else that failed. */
  private readonly failedReads = new Map<string, number>();
  /** By id, until when (monotonic) they are not read again. */
  readonly heldBack = new Map<string, number>();

  constructor(
    readonly deps: Pick<TransportRelayDependencies<Roles<'ready'>>, 'store' | 'id' | 'hooks' | 'clock'>,
    readonly markAlone: (message: OutboxMessage) => void,
  ) {}

  /** Not while it is held back. */
  mayRead({ id }: OutboxMessage): boolean {
    if (this.heldBack.size === 0) return true; // asked for every message
    const until = this.heldBack.get(id);
    if (until === undefined) return true;
    if (this.deps.clock.monotonic() < until) return false;
    return this.heldBack.delete(id);
  }

  /** How many wait. What is gone meanwhile is not asked for again: its time ends it. */
  get waiting(): number {
    const now = this.deps.clock.monotonic();
    for (const [id, until] of this.heldBack) if (until <= now) this.heldBack.delete(id);
    return this.heldBack.size;
  }

  async bring(messages: readonly OutboxMessage[]): Promise<Verdict> {
    const { store, id, hooks, clock } = this.deps;
    const tooLarge = messages.filter((message) => message.tooLarge);
    if (tooLarge.length > 0) {
      if (messages.length === 1) return failed(new Error(TOO_LARGE), true);
      for (const message of tooLarge) this.markAlone(message);
      return 'later';
    }
    const asked = clock.monotonic();
    try {
      if (await readLargePayloads(store.ready, id, messages)) {
        if (this.failedReads.size > 0) for (const message of messages) this.failedReads.delete(message.id);
        return 'go';
      }
    } catch (thrown) {
      const error = errorCopy(thrown, messages); // a server may quote the row
      for (const message of messages) if (isUnread(message)) this.markAlone(message);
      const [message, ...neighbours] = messages as [OutboxMessage, ...OutboxMessage[]];
      const retryIn = neighbours.length > 0 ? PAUSE : this.judge(message, thrown, clock.monotonic() - asked);
      if (retryIn === undefined) return failed(new Error(UNREADABLE, { cause: error }));
      hooks.emit('error', { operation: 'fetch', error, retryIn });
    }
    await pause(clock, PAUSE); // they would be read again at once
    return 'later';
  }

  /** @returns milliseconds until it is read again; `undefined`: it has failed */
  private judge({ id }: OutboxMessage, error: unknown, took: number): number | undefined {
    const subject = subjectOf(error);
    if (subject === 'damage') return this.holdBack(id, DAMAGED_PAUSE); // parking, which moves the payload, would fail, too
    if (subject === 'database' && took < STATEMENT_TIMEOUT) return this.holdBack(id, AWAY_PAUSE);
    const failedReads = (this.failedReads.get(id) ?? 0) + 1;
    put(this.failedReads, id, failedReads);
    return failedReads < MOST_FAILED_READS ? PAUSE : undefined;
  }

  private holdBack(id: string, ms: number): number {
    put(this.heldBack, id, this.deps.clock.monotonic() + ms);
    return ms;
  }
}

function failed(error: Error, final = false): Failure {
  return { ok: false, blame: 'message', error, text: errorText(error), ...(final && { final }) };
}

function put(map: Map<string, number>, id: string, value: number): void {
  if (map.size >= MAX_KNOWN) map.clear();
  map.set(id, value);
}

const UNREADABLE = 'The payload could not be read from the database.';
/** Milliseconds. */
const PAUSE = 200;
const AWAY_PAUSE = 1_000;
const DAMAGED_PAUSE = 10_000;
/** Between two of them its row was read: the database is there. */
const MOST_FAILED_READS = 3;
const MAX_KNOWN = 1_000;
