import type { Context } from '@opentelemetry/api';
import { finished } from '../message/finished.js';
import type { OutboxMessage } from '../outbox-message.js';
import type { InProcessHandler, InProcessHandlers } from '../transports/in-process/handlers.js';
import { OWN_SYSTEM, type Spans } from './spans.js';

/** The handlers of this process, each of whose calls runs in the trace of its message. */
export function followCalls(handlers: InProcessHandlers, spans: Spans, transport: string): InProcessHandlers {
  const known = new WeakMap<InProcessHandler, InProcessHandler>();
  const followed = (handler: InProcessHandler): InProcessHandler => {
    let found = known.get(handler);
    if (found === undefined) known.set(handler, (found = followCall(handler, spans, transport)));
    return found;
  };
  return Object.create(handlers, {
    of: { value: (type: string, version: number) => handlers.of(type, version).map(followed) },
  }) as InProcessHandlers;
}

function followCall(handler: InProcessHandler, spans: Spans, transport: string): InProcessHandler {
  return {
    ...handler,
    call(message, context) {
      const creation = creationOf(message, spans);
      if (creation === undefined) return handler.call(message, context);
      const { api } = spans;
      // What a handler does for a message that was not sampled is not sampled either.
      if (!spans.isSampled(creation)) return api.context.with(creation, () => finished(handler.call(message, context)));
      const span = spans.after(creation, 'process', message, {
        'messaging.system': OWN_SYSTEM,
        'messaging.destination.subscription.name': handler.id,
        'outbox.transport': transport,
        ...(message.attempts > 0 && { 'outbox.message.attempts': message.attempts }),
      });
      const work = async (): Promise<void> => {
        try {
          await finished(await handler.call(message, context));
        } catch (error) {
          spans.fail(span, error, [message]);
          throw error;
        } finally {
          span.end();
        }
      };
      return api.context.with(api.trace.setSpan(creation, span), work);
    },
  };
}

function creationOf(message: OutboxMessage, spans: Spans): Context | undefined {
  if (message.headersJson === null) return undefined;
  try {
    return spans.creationOf(message.headers);
  } catch {
    return undefined;
  }
}
