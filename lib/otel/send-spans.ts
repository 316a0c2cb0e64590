import type { Span } from '@opentelemetry/api';
import type { Publish } from '../options/transport-wrapper.js';
import { OutboxError } from '../outbox.errors.js';
import type { OutboxMessage } from '../outbox-message.js';
import { untraced } from '../time/untraced.js';
import type { PublishContext, PublishResult } from '../transports/transport.js';
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

/** Every publish of a message whose creation was sampled gets a "send" span. */
export function followSends(original: Publish, spans: Spans, settings: SendSettings): Publish {
  const publish: Publish = settings.isInstrumented
    ? (batch, context) => untraced(() => original(batch, context))
    : original;
  return (batch, context) => {
    const sends = begin(batch, spans, settings);
    return sends === undefined ? publish(batch, context) : sends.around(publish, context);
  };
}

/** `undefined`: none of them wants a span. */
function begin(batch: readonly OutboxMessage[], spans: Spans, settings: SendSettings): Sends | undefined {
  let sends: Sends | undefined;
  const isW3c = spans.api.propagation.fields().includes(TRACEPARENT);
  batch.forEach((message, index) => {
    if (message.headersJson === null || (isW3c && saysUnsampled(message.headersJson))) return;
    const span = spanOf(message, spans, settings);
    if (span !== undefined) (sends ??= new Sends(batch, spans)).open.set(index, span);
  });
  return sends;
}

const TRACEPARENT = 'traceparent';
const BEGIN = `"${TRACEPARENT}":"`;
/** In front of the flags: version, id of the trace, id of the span. */
const BEFORE_FLAGS = BEGIN.length + '00-'.length + 32 + 1 + 16 + 1;

/**
 * A look at the text of headers, for most messages of a process that samples a few: to read them all would take as long as the rest
 * of a publish. In JSON no value can look like a name with its quotes.
 */
export function saysUnsampled(headersJson: string): boolean {
  const at = headersJson.indexOf(BEGIN);
  if (at === -1) return false;
  const flags = at + BEFORE_FLAGS;
  return headersJson[flags + 2] === '"' && '02468ace'.includes(headersJson[flags + 1] as string);
}

function spanOf(message: OutboxMessage, spans: Spans, { name, system }: SendSettings): Span | undefined {
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

/** The spans of one batch; each ends with the result of its message. */
class Sends {
  /** By the index in the batch, until they end. */
  readonly open = new Map<number, Span>();

  constructor(
    private readonly batch: readonly OutboxMessage[],
    private readonly spans: Spans,
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

  /** The first result counts. */
  private end(index: number, result: PublishResult): void {
    const span = this.open.get(index);
    if (span === undefined || !this.open.delete(index)) return;
    if (!result.ok) {
      span.setAttribute('outbox.blame', result.blame);
      this.spans.fail(span, result.error, [this.batch[index] as OutboxMessage]);
    }
    span.end();
  }

  private endAll(error: unknown): void {
    for (const index of [...this.open.keys()]) this.end(index, { ok: false, blame: 'transport', error });
  }
}
