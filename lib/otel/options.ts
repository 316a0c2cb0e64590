import type { TracerProvider } from '@opentelemetry/api';
import { refuseUnknown } from '../options/refuse.js';
import { OutboxConfigurationError } from '../outbox.errors.js';

/** Options of {@link OutboxTracing}. */
export interface OutboxTracingOptions {
  /** Makes the spans. Default: the provider that the SDK of the application registered. */
  readonly tracerProvider?: TracerProvider;
  /** Makes a span for each enqueue. With `false` messages carry the context of the caller's own span. Default: true. */
  readonly createSpans?: boolean;
  /** Returns one name for many topics, such as `orders.{tenant}`, for the names of spans; `undefined` keeps the topic. */
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
