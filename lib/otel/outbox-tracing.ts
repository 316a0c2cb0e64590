import type { OutboxService } from '../enqueue/outbox.service.js';
import { aroundPublish, type TransportWrapper } from '../options/transport-wrapper.js';
import { misconfigured } from '../outbox.errors.js';
import type { InProcessHandlers } from '../transports/in-process/handlers.js';
import { loadApi } from './api.js';
import { CreateSpans } from './create-spans.js';
import { checkTracingOptions, type OutboxTracingOptions } from './options.js';
import { followCalls } from './process-spans.js';
import { followSends } from './send-spans.js';
import { OWN_SYSTEM, Spans } from './spans.js';

/** Kinds whose clients OpenTelemetry instruments. */
const INSTRUMENTED: readonly string[] = ['kafka', 'rabbitmq', 'redis', 'sqs', 'client-proxy'];
const IN_PROCESS = 'in-process';

/**
 * Traces one outbox through the API of OpenTelemetry: a span for each message that is enqueued, one for each publish of it, and one
 * for each call of a handler in this process. As a provider:
 * `{ provide: OutboxTracing, inject: [OutboxService], useFactory: (outbox) => OutboxTracing.start(outbox) }`
 */
export class OutboxTracing {
  /**
   * Traces what this outbox enqueues from now on, and what its relay publishes once it starts: call it before, as a provider does.
   * @throws OutboxConfigurationError `MISSING_PEER`: there is no `@opentelemetry/api`; `INVALID_OPTIONS`
   */
  static async start(outbox: OutboxService, options: OutboxTracingOptions = {}): Promise<OutboxTracing> {
    checkTracingOptions(options);
    const { runtime } = outbox;
    const api = await loadApi();
    if (runtime.tracing !== undefined)
      misconfigured(`The outbox '${runtime.options.name}' is traced already.`, 'Provide it once for each outbox.');
    const systems = new Map([...runtime.options.transports].map(([name, { kind }]) => [name, systemOf(kind)]));
    const spans = new Spans(api, options);
    runtime.tracing = () => new CreateSpans(spans, systems);
    runtime.wrappers?.push(following(spans));
    return new OutboxTracing();
  }
}

function following(spans: Spans): TransportWrapper {
  const aroundSends = aroundPublish((publish, name, { kind }) =>
    followSends(publish, spans, { name, system: systemOf(kind), isInstrumented: INSTRUMENTED.includes(kind) }),
  );
  return (name, definition) => {
    if (definition.kind !== IN_PROCESS) return aroundSends(name, definition);
    const create = (handlers: unknown) => definition.create(followCalls(handlers as InProcessHandlers, spans, name));
    return { ...definition, create };
  };
}

function systemOf(kind: string): string {
  return kind === IN_PROCESS ? OWN_SYSTEM : kind;
}
