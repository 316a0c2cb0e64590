import type { Span } from '@opentelemetry/api';
import { OutboxError } from '../outbox.errors.js';
import type { OutboxMessage } from '../outbox-message.js';
import { untraced } from '../time/untraced.js';
import type { OutboxTransport, PublishContext, PublishResult } from '../transports/transport.js';
import type { Spans } from './spans.js';

export interface SendSettings {
  /** Of the transport. */
  readonly name: string;
  /** The value of `messaging.system`. */
  readonly system: string;
  /**
   * The transport speaks through a client for which OpenTelemetry has an instrumentation. That one would make a root span of each
   * publish, beside ours and whatever was sampled.
   */
  readonly isInstrumented: boolean;
}

/** Transports whose `publish` is followed: an application may give one object to several relays, or start one again. */
const followed = new WeakSet<OutboxTransport>();

/** Every publish of a message whose creation was sampled gets a "send" span. */
export function followSends<T extends OutboxTransport>(transport: T, spans: Spans, settings: SendSettings): T {
  if (followed.has(transport)) return transport;
  followed.add(transport);
  const original = transport.publish.bind(transport);
  const publish: typeof original = settings.isInstrumented
    ? (batch, context) => untraced(() => original(batch, context))
    : original;
  transport.publish = (batch, context) => {
    const sends = begin(batch, spans, settings);
    return sends === undefined ? publish(batch, context) : sends.around(publish, context);
  };
  return transport;
}

/** `undefined`: none of them wants a span. */
function begin(batch: readonly OutboxMessage[], spans: Spans, settings: SendSettings): Sends | undefined {
  let sends: Sends | undefined;
  batch.forEach((message, index) => {
    const span = spanOf(message, spans, settings);
    if (span !== undefined) (sends ??= new Sends(batch, spans)).open.set(index, span);
  });
  return sends;
}

function spanOf(message: OutboxMessage, spans: Spans, { name, system }: SendSettings): Span | undefined {
  if (message.headersJson === null) return undefined;
  try {
    const creation = spans.creationOf(message.headers);
    if (creation === undefined || !spans.isSampled(creation)) return undefined;
    const { attempts } = message;
    return spans.after(creation, 'send', message, {
      'messaging.system': system,
      'outbox.transport': name,
      ...(attempts > 0 && { 'outbox.message.attempts': attempts }),
    });
  } catch {
    return undefined; // headers of a foreign writer, or a tracer of the application that throws
  }
}

type Publish = OutboxTransport['publish'];

/** The spans of one batch; each ends with the result of its message. */
class Sends {
  /** By the index in the batch, until they end. */
  readonly open = new Map<number, Span>();

  constructor(
    /** @internal */ readonly batch: readonly OutboxMessage[],
    /** @internal */ readonly spans: Spans,
  ) {}

  async around(publish: Publish, context: PublishContext): ReturnType<Publish> {
    // One that is never settled must not keep its spans: the relay does not wait for it either.
    const abort = (): void => this.endAll(context.signal.reason);
    context.signal.addEventListener('abort', abort, { once: true });
    try {
      const results = await publish(this.batch, {
        signal: context.signal,
        timeout: context.timeout,
        report: (index, result) => {
          this.end(index, result);
          context.report(index, result);
        },
      });
      results?.forEach((result, index) => this.end(index, result));
      this.endAll(new OutboxError('TRANSPORT_UNAVAILABLE', 'The transport gave no result.'));
      return results;
    } catch (error) {
      this.endAll(error);
      throw error;
    } finally {
      context.signal.removeEventListener('abort', abort);
    }
  }

  /** The first result counts. @internal */
  end(index: number, result: PublishResult): void {
    const span = this.open.get(index);
    if (span === undefined || !this.open.delete(index)) return;
    if (!result.ok) {
      span.setAttribute('outbox.blame', result.blame);
      this.spans.fail(span, result.error, [this.batch[index] as OutboxMessage]);
    }
    span.end();
  }

  /** @internal */ endAll(error: unknown): void {
    for (const index of [...this.open.keys()]) this.end(index, { ok: false, blame: 'transport', error });
  }
}
