import { stopwatch, systemClock } from '../../dispatch/clock.js';
import { isObservable } from '../../is-observable.js';
import type { OutboxMessage } from '../../message.js';
import { OutboxConfigurationError, OutboxError } from '../../outbox.errors.js';
import type { TransportDefinition } from '../../outbox.options.js';
import { OutboxTransport, PUBLISHED, type PublishContext, type PublishResult } from '../transport.js';
import { blameFor } from './in-process-blame.js';
import { InProcessHandlers, type InProcessHandler } from './in-process-handlers.js';
import { refuseOptions, unknownNames } from './option-names.js';

export interface InProcessOptions {
  /** Messages of one batch that are handled at once. Default 10. */
  concurrency?: number;
}

/** Kind by which the module knows that an event is routed to handlers. */
export const IN_PROCESS = 'in-process';
/** Reserved for reporting what hangs: the deadline of the handlers is this much before that of the publish. */
const REPORT_MARGIN = 500;
/** Messages whose partial success is remembered in memory, should storing it fail. */
const MAX_REMEMBERED = 10_000;
/** What a parked row stores of it; see `PublishFailure.progress`. */
const MAX_PROGRESS = 4096;

/** Rejects the wait for a handler that a stop of the relay ended. */
const CUT_OFF = Symbol('cut off');

/** Delivers to the `@OnOutboxEvent` methods of this application. */
export function inProcess(options: InProcessOptions = {}): TransportDefinition {
  refuseOptions('inProcess()', unknownNames(options, ['concurrency']));
  const { concurrency = 10 } = options;
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 1000) {
    throw new OutboxConfigurationError(
      'INVALID_OPTIONS',
      `inProcess: concurrency must be a whole number from 1 to 1000.`,
    );
  }
  return {
    kind: IN_PROCESS,
    receipt: 'handler',
    inject: [InProcessHandlers],
    create: (handlers) => new InProcessTransport(handlers as InProcessHandlers, concurrency),
  };
}

export class InProcessTransport extends OutboxTransport {
  override readonly receipt = 'handler';
  override readonly maxBatch: number;
  /** Row → handlers that succeeded while others have not. */
  /** @internal */ readonly succeeded = new Map<string, Set<string>>();
  /** Row and handler id → a call that went on past its deadline; the next try joins it instead of calling again. */
  /** @internal */ readonly running = new Map<string, Promise<unknown>>();

  /** @internal */ closed = false;

  constructor(
    /** @internal */ readonly handlers: InProcessHandlers,
    /** @internal */ readonly concurrency: number,
  ) {
    super();
    // What cannot be begun at once would only spend its deadline waiting.
    this.maxBatch = concurrency;
  }

  override async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<readonly PublishResult[]> {
    const results: PublishResult[] = [];
    const deadline = new Deadline(context);
    let next = 0;
    const work = async (): Promise<void> => {
      while (next < batch.length) {
        const index = next++;
        const result =
          this.closed || deadline.passed
            ? blameFor({ kind: 'not-started' })
            : await this.deliver(batch[index] as OutboxMessage, deadline);
        results[index] = result;
        context.report(index, result);
      }
    };
    try {
      await Promise.all(Array.from({ length: Math.min(this.concurrency, batch.length) }, work));
    } finally {
      deadline.clear();
    }
    return results;
  }

  override async close(): Promise<void> {
    this.closed = true;
  }

  /** @internal */
  async deliver(message: OutboxMessage, deadline: Deadline): Promise<PublishResult> {
    const handlers = this.handlers.of(message.type, message.version);
    if (handlers.length === 0) return blameFor({ kind: 'missing', message });
    const done = this.doneOf(message);
    const failures: { id: string; error: unknown }[] = [];
    const cutOff: string[] = [];
    const open = handlers.filter(({ id }) => !done.has(id));
    await Promise.all(
      open.map(async (handler) => {
        try {
          await deadline.race(this.call(handler, message));
        } catch (error) {
          if (error === CUT_OFF) cutOff.push(handler.id);
          else failures.push({ id: handler.id, error });
        }
      }),
    );
    if (failures.length > 0) {
      const succeeded = this.doneOf(message);
      const failure = blameFor({ kind: 'failed', failures });
      return succeeded.size === 0 ? failure : { ...failure, progress: writeProgress(succeeded) };
    }
    // Only now: one that failed by itself is its message's fault, whatever became of the others.
    if (cutOff.length > 0) return blameFor({ kind: 'cut-off', ids: cutOff });
    this.succeeded.delete(rowOf(message));
    return PUBLISHED;
  }

  /** What the parked row and this process remember. @internal */
  doneOf(message: OutboxMessage): Set<string> {
    return new Set([...readProgress(message.progress), ...(this.succeeded.get(rowOf(message)) ?? [])]);
  }

  /** @internal */
  call(handler: InProcessHandler, message: OutboxMessage): Promise<unknown> {
    const row = rowOf(message);
    const place = `${row} ${handler.id}`;
    const running = this.running.get(place);
    if (running !== undefined) return running;
    const call = (async () => finished(await handler.call(message)))();
    this.running.set(place, call);
    const forget = (): unknown => this.running.delete(place);
    call.then(() => {
      forget();
      this.remember(row, handler.id);
    }, forget);
    return call;
  }

  /** Also what ended too late to be reported. @internal */
  remember(row: string, handlerId: string): void {
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

/** An Observable, as `HttpService` returns it, does nothing until it is subscribed to, and has succeeded when it completes. */
function finished(returned: unknown): Promise<void> | undefined {
  if (!isObservable(returned)) return undefined;
  return new Promise((complete, error) => {
    returned.subscribe({ error, complete });
  });
}

/** Ends the wait for handlers a little before the publish ends, so that what hangs can be named. */
class Deadline {
  over = false;
  readonly fired: Promise<never>;
  readonly clear: () => void;
  readonly left: () => number;

  constructor({ signal, timeout }: PublishContext) {
    let end: (why: unknown) => void = () => {};
    this.fired = new Promise<never>((_resolve, reject) => {
      end = (why) => {
        this.over = true;
        reject(why as Error);
      };
    });
    this.fired.catch(() => {});
    const time = timeout - Math.min(REPORT_MARGIN, timeout / 10);
    const elapsed = stopwatch(systemClock);
    this.left = () => time - elapsed();
    const fire = (): void =>
      end(new OutboxError('PUBLISH_TIMEOUT', `The handler did not finish within ${Math.round(timeout)} ms.`));
    const cancel = systemClock.after(time, fire);
    // An abort while there is time left is a stop of the relay; after that it only came before our timer.
    const abort = (): void => (this.left() > 0 ? end(CUT_OFF) : fire());
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    this.clear = () => {
      cancel();
      signal.removeEventListener('abort', abort);
    };
  }

  /** Also when the process stood still, and its timer has not fired yet. */
  get passed(): boolean {
    return this.over || this.left() <= 0;
  }

  race<T>(call: Promise<T>): Promise<T> {
    return Promise.race([call, this.fired]);
  }
}

function readProgress(progress: string | null): readonly string[] {
  try {
    const ids: unknown = JSON.parse(progress ?? '[]');
    return Array.isArray(ids) ? ids.filter((id) => typeof id === 'string') : [];
  } catch {
    return [];
  }
}

/** As many as fit: one that is left out is called again, which at least once allows. */
function writeProgress(done: ReadonlySet<string>): string {
  const ids = [...done];
  while (JSON.stringify(ids).length > MAX_PROGRESS) ids.pop();
  return JSON.stringify(ids);
}
