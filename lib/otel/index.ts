// Spans of an outbox through the API of OpenTelemetry. Loads @opentelemetry/api when it is asked to trace, and no SDK.
export { OutboxTracing } from './outbox-tracing.js';
export type { OutboxTracingOptions } from './options.js';
