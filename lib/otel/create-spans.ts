import type { Context, Span } from '@opentelemetry/api';
import type { CreatedMessage, EnqueueTrace } from '../enqueue/tracing.js';
import { OWN_SYSTEM, type Spans } from './spans.js';

/** The "create" spans of one call of `enqueue`: one for each message, in the context of the caller. */
export class CreateSpans implements EnqueueTrace {
  private readonly parent: Context;
  private readonly open: Span[] = [];

  constructor(
    private readonly spans: Spans,
    /** Name of a transport → its messaging system. */ private readonly systems: ReadonlyMap<string, string>,
  ) {
    this.parent = spans.api.context.active();
  }

  created(message: CreatedMessage): Readonly<Record<string, string>> | undefined {
    try {
      return this.creationFor(message);
    } catch {
      return undefined; // a sampler or propagator of the application that throws must not keep a message from being written
    }
  }

  end(error?: unknown): void {
    for (const span of this.open) {
      if (error !== undefined) this.spans.fail(span, error);
      span.end();
    }
  }

  /** A context that the caller gave stays as it is, and no span is made beside it. */
  private creationFor(message: CreatedMessage): Readonly<Record<string, string>> | undefined {
    const { api, options } = this.spans;
    for (const _ in message.headers) {
      if (this.spans.creationOf(message.headers) !== undefined) return undefined;
      break;
    }
    let creation = this.parent;
    if (options.createSpans !== false) {
      const span = this.spans.create(message, this.systemOf(message), this.parent);
      this.open.push(span);
      creation = api.trace.setSpan(this.parent, span);
    }
    const headers: Record<string, string> = {};
    api.propagation.inject(creation, headers);
    return Object.keys(headers).length === 0 ? undefined : headers;
  }

  private systemOf({ transports }: CreatedMessage): string {
    const [first, ...others] = new Set(transports.map((name) => this.systems.get(name) ?? OWN_SYSTEM));
    return first === undefined || others.length > 0 ? OWN_SYSTEM : first;
  }
}
