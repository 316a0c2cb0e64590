import type { OutboxService } from '../enqueue/outbox.service.js';
import type { EnqueueTrace } from '../enqueue/tracing.js';
import { OutboxConfigurationError } from '../outbox.errors.js';
import type { TransportDefinition } from '../outbox.options.js';
import type { InProcessHandlers } from '../transports/in-process/handlers.js';
import type { OutboxTransport } from '../transports/transport.js';
import { loadApi } from './api.js';
import { CreateSpans } from './create-spans.js';
import { checkTracingOptions, type OutboxTracingOptions } from './options.js';
import { followCalls } from './process-spans.js';
import { followSends } from './send-spans.js';
import { OWN_SYSTEM, Spans } from './spans.js';

/** Kinds whose clients OpenTelemetry instruments. */
const INSTRUMENTED: readonly string[] = ['kafka', 'rabbitmq', 'client-proxy'];
const IN_PROCESS = 'in-process';

/**
 * Traces one outbox through the API of OpenTelemetry: a span for each message that is enqueued, one for each publish of it, and one
 * for each call of a handler in this process. As a provider:
 * `{ provide: OutboxTracing, inject: [OutboxService], useFactory: (outbox) => OutboxTracing.start(outbox) }`
 */
export class OutboxTracing {
  /** @internal Name of a transport → its messaging system. */
  readonly systems: ReadonlyMap<string, string>;

  /** @internal */ constructor(
    /** @internal */ readonly spans: Spans,
    transports: ReadonlyMap<string, TransportDefinition>,
  ) {
    this.systems = new Map([...transports].map(([name, { kind }]) => [name, systemOf(kind)]));
  }

  /**
   * Traces what this outbox enqueues from now on, and what its relay publishes once it starts: call it before, as a provider does.
   * @throws OutboxConfigurationError `MISSING_PEER`: there is no `@opentelemetry/api`; `INVALID_OPTIONS`
   */
  static async start(outbox: OutboxService, options: OutboxTracingOptions = {}): Promise<OutboxTracing> {
    checkTracingOptions(options);
    const { runtime } = outbox;
    const spans = new Spans(await loadApi(), options);
    if (runtime.tracing !== undefined)
      throw new OutboxConfigurationError('INVALID_OPTIONS', `The outbox '${runtime.options.name}' is traced already.`, {
        hint: 'Provide OutboxTracing once for each outbox.',
      });
    const tracing = new OutboxTracing(spans, runtime.options.transports);
    runtime.tracing = tracing;
    return tracing;
  }

  /** @internal */ enqueue(): EnqueueTrace {
    return new CreateSpans(this.spans, this.systems);
  }

  /** @internal */ transport(name: string, definition: TransportDefinition): TransportDefinition {
    const { spans } = this;
    const { kind } = definition;
    if (kind === IN_PROCESS) {
      const create = (handlers: unknown) => definition.create(followCalls(handlers as InProcessHandlers, spans, name));
      return { ...definition, create };
    }
    const settings = { name, system: systemOf(kind), isInstrumented: INSTRUMENTED.includes(kind) };
    const create = async (...dependencies: unknown[]): Promise<OutboxTransport> => {
      const transport = await definition.create(...dependencies);
      // What has no publish is refused by whoever asked for it.
      return typeof transport?.publish === 'function' ? followSends(transport, spans, settings) : transport;
    };
    return { ...definition, create };
  }
}

function systemOf(kind: string): string {
  return kind === IN_PROCESS ? OWN_SYSTEM : kind;
}
