import type { TracerProvider } from '@opentelemetry/api';
import { resolveFactory, row, type FactoryTable } from '../options/factory-options.js';
import { aFunction, INVALID, trueOrFalse } from '../options/rules.js';

/** Options of {@link OutboxTracing}. */
export interface OutboxTracingOptions {
  /** Makes the spans. Default: the provider that the SDK of the application registered. */
  readonly tracerProvider?: TracerProvider;
  /** Makes a span for each enqueue. With `false` messages carry the context of the caller's own span. Default: true. */
  readonly createSpans?: boolean;
  /** Returns one name for many topics, such as `orders.{tenant}`, for the names of spans; `undefined` keeps the topic. */
  readonly template?: (message: { readonly topic: string; readonly type: string }) => string | undefined;
}

const TABLE: FactoryTable<OutboxTracingOptions> = {
  factory: 'OutboxTracing',
  rows: {
    tracerProvider: row({
      allowed: 'a TracerProvider of OpenTelemetry',
      parse: (value) => (typeof (value as Partial<TracerProvider> | null)?.getTracer === 'function' ? value : INVALID),
    }),
    createSpans: row(trueOrFalse),
    template: row(aFunction),
  },
};

/** @throws OutboxConfigurationError `INVALID_OPTIONS` */
export const checkTracingOptions = (options: OutboxTracingOptions): unknown => resolveFactory(TABLE, options);
