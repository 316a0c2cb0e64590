export { kafka, type KafkaOptions } from './publish/transports/kafka.js';
