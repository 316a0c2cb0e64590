import type { Context, Span } from '@opentelemetry/api';
import { finished } from '../message/finished.js';
import type { OutboxMessage } from '../outbox-message.js';
import { aroundCalls } from '../transports/in-process/around-calls.js';
import type { InProcessHandler, InProcessHandlers } from '../transports/in-process/handlers.js';
import { OWN_SYSTEM, type Spans } from './spans.js';

/** The handlers of this process, each of whose calls runs in the trace of its message. */
export function followCalls(handlers: InProcessHandlers, spans: Spans, transport: string): InProcessHandlers {
  return aroundCalls(handlers, (handler) => (message, context) => {
    const creation = creationOf(message, spans);
    if (creation === undefined) return handler.call(message, context);
    const { api } = spans;
    // What a handler does for a message that was not sampled is not sampled either.
    if (!spans.isSampled(creation))
      return api.context.with(creation, () => finished(() => handler.call(message, context)));
    const span = spanOf(message, creation, handler, spans, transport);
    if (span === undefined) return handler.call(message, context);
    const work = async (): Promise<void> => {
      try {
        await finished(() => handler.call(message, context));
      } catch (error) {
        spans.fail(span, error, [message]);
        throw error;
      } finally {
        span.end();
      }
    };
    return api.context.with(api.trace.setSpan(creation, span), work);
  });
}

/** `undefined`: a tracer or template of the application threw, which must not cost the message an attempt. */
function spanOf(
  message: OutboxMessage,
  creation: Context,
  handler: InProcessHandler,
  spans: Spans,
  transport: string,
): Span | undefined {
  try {
    return spans.after(creation, 'process', message, {
      'messaging.system': OWN_SYSTEM,
      'messaging.destination.subscription.name': handler.id,
      'outbox.transport': transport,
      ...(message.attempts > 0 && { 'outbox.message.attempts': message.attempts }),
    });
  } catch {
    return undefined;
  }
}

function creationOf(message: OutboxMessage, spans: Spans): Context | undefined {
  if (message.headersJson === null) return undefined;
  try {
    return spans.creationOf(message.headers);
  } catch {
    return undefined;
  }
}
