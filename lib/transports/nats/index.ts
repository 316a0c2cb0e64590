export { nats } from './nats.js';
export { NatsPublishError, type NatsReason } from './errors.js';
export type { NatsConnectionOptions, NatsOptions } from './options.js';
