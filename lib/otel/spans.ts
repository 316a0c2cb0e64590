import type { Attributes, Context, Span, Tracer } from '@opentelemetry/api';
import { errorText } from '../observe/redact/error-text.js';
import type { OutboxMessage } from '../outbox-message.js';
import type { OtelApi } from './api.js';
import type { OutboxTracingOptions } from './options.js';

/** Of the messaging system where it is the outbox itself: several brokers, or handlers of this process. */
export const OWN_SYSTEM = 'nestjs_outbox';

/** What spans say of a message, by the semantic conventions of messaging. */
export interface Described {
  readonly id: string;
  readonly type: string;
  readonly topic: string;
}

/** Makes the spans of one outbox. */
export class Spans {
  private readonly tracer: Tracer;

  constructor(
    readonly api: OtelApi,
    readonly options: OutboxTracingOptions,
  ) {
    this.tracer = (options.tracerProvider ?? api.trace).getTracer('nestjs-outbox');
  }

  /** In which a message was created, by its headers; `undefined`: it says nothing of it. */
  creationOf(headers: object): Context | undefined {
    const { propagation, trace, ROOT_CONTEXT } = this.api;
    const context = propagation.extract(ROOT_CONTEXT, headers);
    const found = trace.getSpanContext(context);
    return found !== undefined && this.api.trace.isSpanContextValid(found) ? context : undefined;
  }

  /** Whether whoever created the message wants spans of it. */
  isSampled(creation: Context): boolean {
    const flags = this.api.trace.getSpanContext(creation)?.traceFlags ?? this.api.TraceFlags.NONE;
    return (flags & this.api.TraceFlags.SAMPLED) !== 0;
  }

  create(message: Described, system: string, parent: Context): Span {
    return this.start('create', message, { 'messaging.system': system }, parent);
  }

  /** What follows a creation: in its trace, so that who sampled that decides, and linked to it as the conventions ask. */
  after(creation: Context, operation: 'send' | 'process', message: Described, attributes: Attributes): Span {
    return this.start(operation, message, attributes, creation, true);
  }

  private start(
    operation: 'create' | 'send' | 'process',
    { id, type, topic }: Described,
    attributes: Attributes,
    parent: Context,
    linked = false,
  ): Span {
    const { SpanKind, trace } = this.api;
    const kind = { create: SpanKind.PRODUCER, send: SpanKind.CLIENT, process: SpanKind.CONSUMER }[operation];
    const template = this.options.template?.({ topic, type });
    const creation = linked ? trace.getSpanContext(parent) : undefined;
    return this.tracer.startSpan(
      `${operation} ${template ?? topic}`,
      {
        kind,
        attributes: {
          'messaging.operation.name': operation,
          'messaging.operation.type': operation,
          'messaging.destination.name': topic,
          ...(template !== undefined && { 'messaging.destination.template': template }),
          'messaging.message.id': id,
          'outbox.message.type': type,
          ...attributes,
        },
        ...(creation !== undefined && { links: [{ context: creation }] }),
      },
      parent,
    );
  }

  /** @param about messages that the error may quote */
  fail(span: Span, error: unknown, about: readonly OutboxMessage[] = []): void {
    span.setAttribute('error.type', typeOfError(error));
    span.setStatus({ code: this.api.SpanStatusCode.ERROR, message: errorText(error, about) });
  }
}

/** Of low cardinality: the code of the error, or the name of its class. */
function typeOfError(error: unknown): string {
  try {
    const { code, name } = Object(error) as { code?: unknown; name?: unknown };
    for (const one of [code, name]) if (typeof one === 'string' && /^[\w.-]{1,100}$/.test(one)) return one;
  } catch {
    // One that cannot be read.
  }
  return '_OTHER';
}
