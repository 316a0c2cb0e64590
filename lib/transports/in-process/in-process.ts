import type { OutboxMessage } from '../../outbox-message.js';
import { isPermanent, OutboxError } from '../../outbox.errors.js';
import type { TransportDefinition } from '../../outbox.options.js';
import {
  MAX_PROGRESS,
  OutboxTransport,
  PUBLISHED,
  type PublishContext,
  type PublishFailure,
  type PublishResult,
} from '../transport.js';
import { Deadline } from '../deadline.js';
import { blameFor, handlerName, typeName, type HandlerFailure } from './blame.js';
import { HandlerCalls } from './calls.js';
import { InProcessHandlers, type InProcessHandler } from './handlers.js';
import { HandlerSlots } from './slots.js';
import { markFactory, resolveFactory, row, type FactoryTable } from '../../options/factory-options.js';
import { integer } from '../../options/rules.js';

export interface InProcessOptions {
  /** Limits the messages of one batch that are handled at the same time. Default: 10. */
  concurrency?: number;
}

const TABLE: FactoryTable<InProcessOptions> = {
  factory: 'inProcess()',
  rows: { concurrency: row(integer(1, 1000), 10) },
};

/** Kind by which the module knows that an event is routed to handlers. */
export const IN_PROCESS = 'in-process';
/** Reserved for reporting what hangs: the deadline of the handlers is this much before that of the publish. */
const REPORT_MARGIN = 500;

/** Rejects the wait for a handler that a stop of the relay ended. */
const CUT_OFF = Symbol('cut off');
const STOPPED = 'The relay stopped, and does not wait for this handler.';

/** Delivers to the `@OnOutboxEvent` methods of this application. */
export function inProcess(options: InProcessOptions = {}): TransportDefinition {
  const { concurrency } = resolveFactory(TABLE, options) as Required<InProcessOptions>;
  return {
    kind: IN_PROCESS,
    receipt: 'handler',
    inject: [InProcessHandlers],
    create: (handlers) => new InProcessTransport(handlers as InProcessHandlers, concurrency),
  };
}
markFactory(inProcess, 'inProcess()');

export class InProcessTransport extends OutboxTransport {
  override readonly receipt = 'handler';
  override readonly maxBatch: number;
  private readonly calls = new HandlerCalls();
  private readonly slots: HandlerSlots;
  private closed = false;

  constructor(
    private readonly handlers: InProcessHandlers,
    private readonly concurrency: number,
  ) {
    super();
    // What cannot be begun at once would only spend its deadline waiting.
    this.maxBatch = concurrency;
    this.slots = new HandlerSlots(concurrency);
  }

  override async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<void> {
    const deadline = new HandlerDeadline(context);
    let next = 0;
    const work = async (): Promise<void> => {
      while (next < batch.length) {
        const index = next++;
        const result =
          this.closed || deadline.passed
            ? blameFor({ kind: 'not-started' })
            : await this.deliver(batch[index] as OutboxMessage, deadline, () => context.report(index, PUBLISHED));
        context.report(index, result);
      }
    };
    try {
      await Promise.all(Array.from({ length: Math.min(this.concurrency, batch.length) }, work));
    } finally {
      deadline.dispose();
    }
  }

  override async close(): Promise<void> {
    this.closed = true;
  }

  override destinationOf(message: OutboxMessage): readonly string[] {
    const handlers = this.handlers.of(message.type, message.version);
    return [typeName(message), ...handlers.map(({ id }) => handlerName(id))];
  }

  /**
   * @param through called when its handlers are through after all
   */
  private async deliver(
    message: OutboxMessage,
    deadline: HandlerDeadline,
    through: () => void,
  ): Promise<PublishResult> {
    this.calls.tried(message);
    const handlers = this.handlers.of(message.type, message.version);
    if (handlers.length === 0) return blameFor({ kind: 'missing', message });
    const done = this.doneOf(message);
    const calling = new Calling();
    await Promise.all(
      handlers.filter(({ id }) => !done.has(id)).map((handler) => this.call(handler, message, deadline, calling)),
    );
    const failure = calling.failure();
    const succeeded = this.doneOf(message);
    const missing = handlers.flatMap(({ id }) => (succeeded.has(id) ? [] : [id]));
    if (failure === undefined || missing.length === 0) {
      this.calls.published(message);
      return PUBLISHED;
    }
    this.calls.whenThrough(message, missing, through);
    return succeeded.size === 0 ? failure : { ...failure, progress: writeProgress(succeeded) };
  }

  /** What the parked row and this process remember. */
  private doneOf(message: OutboxMessage): ReadonlySet<string> {
    const here = this.calls.doneOf(message);
    return message.progress === null ? here : new Set([...readProgress(message.progress), ...here]);
  }

  /** Without a slot for what an earlier try has called: that may go on for longer than this publish. */
  private async call(
    handler: InProcessHandler,
    message: OutboxMessage,
    deadline: HandlerDeadline,
    calling: Calling,
  ): Promise<void> {
    const { id } = handler;
    const retryIn = this.calls.waitFor(handler, message, deadline.publish);
    if (retryIn !== undefined || !this.slots.take(id)) return calling.isBusy(id, retryIn);
    const call = this.calls.begin(handler, message);
    let isHanging = false;
    try {
      await deadline.race(call.ended);
    } catch (error) {
      isHanging = deadline.isOver && error !== CUT_OFF;
      if (deadline.isOver) call.leave(error === CUT_OFF ? new OutboxError('TRANSPORT_UNAVAILABLE', STOPPED) : error);
      if (error === CUT_OFF) calling.cutOff.push(id);
      else calling.failures.push({ id, error, isHanging });
    } finally {
      this.slots.giveBack(id, isHanging);
    }
  }
}

/** What became of the handlers of one message that have not succeeded. */
class Calling {
  readonly failures: HandlerFailure[] = [];
  readonly cutOff: string[] = [];
  private readonly busy: string[] = [];
  /** The soonest. */
  private retryIn: number | undefined;

  isBusy(id: string, retryIn: number | undefined): void {
    this.busy.push(id);
    if (retryIn !== undefined) this.retryIn = Math.min(retryIn, this.retryIn ?? Infinity);
  }

  failure(): PublishFailure | undefined {
    const { failures, cutOff, busy, retryIn } = this;
    // One that will never succeed ends the message only when no other is still to come.
    const isWaited = cutOff.length + busy.length > 0 && failures.every(({ error }) => isPermanent(error));
    if (failures.length > 0 && !isWaited) return blameFor({ kind: 'failed', failures });
    // Only now: one that failed by itself is its message's fault, whatever became of the others.
    if (cutOff.length > 0) return blameFor({ kind: 'cut-off', ids: cutOff });
    return busy.length > 0 ? blameFor({ kind: 'busy', ids: busy, retryIn }) : undefined;
  }
}

/** Ends the wait for handlers a little before the publish ends, so that what hangs can be named. */
class HandlerDeadline extends Deadline {
  /** Milliseconds that the publish has. */
  readonly publish: number;
  private readonly fired: Promise<never>;

  constructor({ signal, timeout }: PublishContext) {
    super(signal, timeout - Math.min(REPORT_MARGIN, timeout / 10));
    this.publish = timeout;
    this.fired = new Promise((_, reject) =>
      this.onPass(() => reject(this.isCutShort ? CUT_OFF : new OutboxError('PUBLISH_TIMEOUT', inTime(timeout)))),
    );
    this.fired.catch(() => {});
  }

  race<T>(call: Promise<T>): Promise<T> {
    return Promise.race([call, this.fired]);
  }
}
const inTime = (timeout: number): string => `The handler did not finish within ${Math.round(timeout)} ms.`;

function readProgress(progress: string): readonly string[] {
  try {
    const ids: unknown = JSON.parse(progress);
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
