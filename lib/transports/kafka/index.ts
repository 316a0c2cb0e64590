export { kafka } from './kafka.js';
export type { KafkaOptions } from './options.js';
