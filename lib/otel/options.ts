import type { TracerProvider } from '@opentelemetry/api';
import { refuseUnknown } from '../options/refuse.js';
import { OutboxConfigurationError } from '../outbox.errors.js';

/** Who makes the spans, which, and under which names. */
export interface OutboxTracingOptions {
  /** Makes the spans. @default the one that the SDK of the application registered */
  readonly tracerProvider?: TracerProvider;
  /**
   * `false`: an enqueue makes no spans, and messages carry the context of the caller's own span. @default true
   */
  readonly createSpans?: boolean;
  /**
   * A name of low cardinality for topics that are many: `orders.{tenant}`. Spans are named after it. `undefined`: the topic itself.
   */
  readonly template?: (message: { readonly topic: string; readonly type: string }) => string | undefined;
}

const SUBJECT = 'OutboxTracing';
const CHECKS: Readonly<Record<keyof OutboxTracingOptions, readonly [(value: unknown) => boolean, string]>> = {
  tracerProvider: [
    (value) => typeof (value as Partial<TracerProvider> | null)?.getTracer === 'function',
    'a TracerProvider of OpenTelemetry',
  ],
  createSpans: [(value) => typeof value === 'boolean', 'true or false'],
  template: [(value) => typeof value === 'function', 'a function'],
};

/** @throws OutboxConfigurationError `INVALID_OPTIONS` */
export function checkTracingOptions(options: OutboxTracingOptions): void {
  refuseUnknown(options, Object.keys(CHECKS), SUBJECT);
  for (const [name, [isRight, wanted]] of Object.entries(CHECKS)) {
    const value = options[name as keyof OutboxTracingOptions];
    if (value !== undefined && !isRight(value))
      throw new OutboxConfigurationError('INVALID_OPTIONS', `${SUBJECT}: ${name} must be ${wanted}.`);
  }
}
