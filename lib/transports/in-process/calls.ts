import { inCleanScope } from '../../time/async-scope.js';
import { stopwatch, systemClock } from '../../time/clock.js';
import { finished } from '../../message/finished.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { OutboxHandlerContext } from '../../enqueue/events/on-outbox-event.decorator.js';
import type { InProcessHandler } from './handlers.js';

/** One call of a handler, from its begin until it settles, however late that is. */
export class HandlerCall {
  /** Milliseconds since it began. */
  readonly age = stopwatch(systemClock);
  /** Also when an earlier call of the same message succeeds meanwhile. */
  readonly ended: Promise<void>;
  private readonly context = new CallContext();

  constructor(
    handler: InProcessHandler,
    message: OutboxMessage,
    earlier?: HandlerCall,
    /** Of its message, when it was last asked for. */
    public attempts = message.attempts,
  ) {
    const ended = inCleanScope(() => finished(() => handler.call(message, this.context)));
    this.ended = earlier === undefined ? ended : Promise.race([ended, earlier.ended.catch(() => ended)]);
  }

  /** Nobody waits for it any more. It may go on: nothing can end it but the handler itself. */
  leave(reason: unknown): void {
    this.context.leave(reason);
  }
}

/** Few handlers ask for their signal, and to make one costs as much as all else of a call. */
class CallContext implements OutboxHandlerContext {
  private controller: AbortController | undefined;
  private left: { readonly reason: unknown } | undefined;

  get signal(): AbortSignal {
    if (this.controller === undefined) {
      this.controller = new AbortController();
      if (this.left !== undefined) this.controller.abort(this.left.reason);
    }
    return this.controller.signal;
  }

  leave(reason: unknown): void {
    this.left = { reason };
    this.controller?.abort(reason);
  }
}

/**
 * What handlers of this process do and have done, by row and handler. A slow handler does not run beside itself: the message
 * waits for the call that an earlier try left. But not for ever: a call that waits for a lost answer never settles.
 */
export class HandlerCalls {
  /** Row → handlers that succeeded while others have not. */
  private readonly succeeded = new Map<string, Set<string>>();
  /** Row whose last try failed while calls go on → who is not through yet, and who wants to know when all are. */
  private readonly late = new Map<string, { readonly missing: Set<string>; through(): void }>();
  /** Row and handler id → its last call, until that settles. */
  private readonly running = new Map<string, HandlerCall>();

  /**
   * @param timeout milliseconds that a publish takes at most
   * @returns in how many milliseconds to ask again; `undefined`: the handler is to be called
   */
  waitFor({ id }: InProcessHandler, message: OutboxMessage, timeout: number): number | undefined {
    const running = this.running.get(placeOf(message, id));
    // Attempts that fell were set back by an operator, who wants it tried, not waited for.
    if (running === undefined || message.attempts < running.attempts) return undefined;
    const age = running.age();
    const left = timeout * WAITED_FOR - age;
    if (left <= 0) return undefined;
    running.attempts = message.attempts;
    return Math.ceil(Math.min(left, Math.max(FIRST_LOOK, age / 4), LAST_LOOK));
  }

  begin(handler: InProcessHandler, message: OutboxMessage): HandlerCall {
    const place = placeOf(message, handler.id);
    const call = new HandlerCall(handler, message, this.running.get(place));
    if (this.running.size >= MAX_REMEMBERED) this.running.delete(this.running.keys().next().value as string);
    this.running.set(place, call);
    const forget = (): boolean => this.running.get(place) === call && this.running.delete(place);
    call.ended.then(
      () => {
        forget();
        this.remember(rowOf(message), handler.id);
      },
      () => forget() && this.late.delete(rowOf(message)),
    );
    return call;
  }

  /** Asked again: what became of the try before does not matter any more. */
  tried(message: OutboxMessage): void {
    this.late.delete(rowOf(message));
  }

  /**
   * Its try failed. Those that are not through may be later on, where their calls go on.
   * @param through called once, when all are
   */
  whenThrough(message: OutboxMessage, missing: readonly string[], through: () => void): void {
    if (!missing.every((id) => this.running.has(placeOf(message, id)))) return;
    if (this.late.size >= MAX_LATE) this.late.delete(this.late.keys().next().value as string);
    this.late.set(rowOf(message), { missing: new Set(missing), through });
  }

  /** The handlers that returned for this message and are not called again, as far as this process knows. */
  doneOf(message: OutboxMessage): ReadonlySet<string> {
    return this.succeeded.get(rowOf(message)) ?? NONE;
  }

  /** Every handler is through. */
  published(message: OutboxMessage): void {
    this.succeeded.delete(rowOf(message));
  }

  /** Also what ended too late to be reported. */
  private remember(row: string, handlerId: string): void {
    const late = this.late.get(row);
    if (late?.missing.delete(handlerId) === true && late.missing.size === 0) {
      this.late.delete(row);
      late.through();
    }
    const ids = this.succeeded.get(row);
    if (ids !== undefined) {
      ids.add(handlerId);
      return;
    }
    if (this.succeeded.size >= MAX_REMEMBERED) this.succeeded.delete(this.succeeded.keys().next().value as string);
    this.succeeded.set(row, new Set([handlerId]));
  }
}

/** Plain SQL can give two rows one id. From its first try on a row keeps its `seq`, wherever it is parked. */
function rowOf({ id, seq }: OutboxMessage): string {
  return `${id} ${seq}`;
}

const placeOf = (message: OutboxMessage, handlerId: string): string => `${rowOf(message)} ${handlerId}`;

const NONE: ReadonlySet<string> = new Set();
/** Times the publish timeout, since its begin, that a call is waited for. */
const WAITED_FOR = 3;
/** Milliseconds to the first look, and to any look at most, whether a call has ended; between them a quarter of its age. */
const FIRST_LOOK = 1_000;
const LAST_LOOK = 60_000;
/** Messages whose partial success, and calls whose going on, are remembered in memory. */
const MAX_REMEMBERED = 10_000;
/** Messages of which a call may still end well. Each holds the batch that it was in. */
const MAX_LATE = 200;
