// Metrics of an outbox or an inbox in the application's registry of prom-client. Loads no package.
export { OutboxPrometheus, type ObservedOutbox } from './outbox-prometheus.js';
export { InboxPrometheus, type ObservedInbox } from './inbox-prometheus.js';
export type { OutboxPrometheusOptions } from './options.js';
export type { MetricsRegistry } from './registered.js';
