export { kafka } from './publish/transports/kafka.js';
export type { KafkaOptions } from './publish/transports/kafka-options.js';
