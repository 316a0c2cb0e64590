import type { OutboxMessage } from '../outbox-message.js';
import {
  OutboxTransport,
  PUBLISHED,
  type Blame,
  type PublishContext,
  type PublishResult,
  type TransportLimits,
} from '../transports/transport.js';

export interface FailOptions {
  /** Default `message`. */
  blame?: Blame;
  error?: unknown;
  /** Dead at once; only with blame `message`. */
  final?: boolean;
  /** How many messages fail. Default: all until the failure is taken back. */
  times?: number;
  when?: (message: OutboxMessage) => boolean;
}
type Step = (
  message: OutboxMessage,
  signal: AbortSignal,
) => undefined | PublishResult | Promise<PublishResult | undefined>;

/** Takes every message and remembers it; fails, hangs or waits when it is told. */
export class RecordingTransport extends OutboxTransport {
  override readonly receipt = 'broker';
  declare readonly limits?: TransportLimits;
  /** Acknowledged, in order. */
  readonly published: OutboxMessage[] = [];
  /** Handed over, in order, whatever came of it. */
  readonly attempts: OutboxMessage[] = [];
  /** Messages that hang or wait at a gate now. */
  waiting = 0;
  closed = false;
  /** @internal */ readonly steps = new Set<Step>();

  constructor(limits?: TransportLimits) {
    super();
    if (limits !== undefined) Object.defineProperty(this, 'limits', { value: limits });
  }

  override async publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<readonly PublishResult[]> {
    return Promise.all(
      batch.map(async (message, index) => {
        this.attempts.push(message);
        const result = await this.take(message, context.signal);
        if (result.ok) this.published.push(message);
        context.report(index, result);
        return result;
      }),
    );
  }

  /** A relay that was stopped may start again. */
  override async connect(): Promise<void> {
    this.closed = false;
  }
  override async close(): Promise<void> {
    this.closed = true;
  }

  /** Lets messages fail. @returns how to take it back */
  fail(options: FailOptions = {}): () => void {
    const { blame = 'message', error = new Error('told to fail'), final = false, when = () => true } = options;
    let { times = Infinity } = options;
    return this.step((message) => {
      if (times <= 0 || !when(message)) return undefined;
      times--;
      return { ok: false, blame, error, ...(final ? { final } : {}) };
    });
  }

  /** Lets messages hang until the publish is given up. @returns how to take it back */
  hang(when: (message: OutboxMessage) => boolean = () => true): () => void {
    return this.step((message, signal) =>
      when(message)
        ? this.wait((done) => onAbort(signal, () => done({ ok: false, blame: 'transport', error: signal.reason })))
        : undefined,
    );
  }

  /** Holds messages back. @returns how to let them through */
  gate(when: (message: OutboxMessage) => boolean = () => true): () => void {
    let open = (): void => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const remove = this.step((message, signal) =>
      when(message)
        ? this.wait((done) => {
            void opened.then(() => done(undefined));
            onAbort(signal, () => done({ ok: false, blame: 'transport', error: signal.reason }));
          })
        : undefined,
    );
    return () => {
      remove();
      open();
    };
  }

  /** Forgets what was recorded and what it was told. */
  clear(): void {
    this.published.length = 0;
    this.attempts.length = 0;
    this.steps.clear();
  }

  /** @internal */
  async take(message: OutboxMessage, signal: AbortSignal): Promise<PublishResult> {
    if (this.closed || signal.aborted) {
      return { ok: false, blame: 'transport', error: new Error(this.closed ? 'The transport is closed.' : 'aborted') };
    }
    for (const step of [...this.steps]) {
      const result = await step(message, signal);
      if (result !== undefined) return result;
    }
    return PUBLISHED;
  }

  /** @internal */
  step(step: Step): () => void {
    this.steps.add(step);
    return () => {
      this.steps.delete(step);
    };
  }

  /** @internal */
  async wait(until: (done: (result: PublishResult | undefined) => void) => void): Promise<PublishResult | undefined> {
    this.waiting++;
    try {
      return await new Promise(until);
    } finally {
      this.waiting--;
    }
  }
}

function onAbort(signal: AbortSignal, action: () => void): void {
  if (signal.aborted) action();
  else signal.addEventListener('abort', action, { once: true });
}
