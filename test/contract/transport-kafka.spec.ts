import { Kafka } from 'kafkajs';
import { kafka } from '../../lib/transports/kafka/index.js';
import { kafkaThrough } from '../support/kafka.js';
import { describeKafkaContract } from '../support/kafka-contract.js';
import { describeWith } from '../support/services.js';

describeWith('kafka', 'kafka()', () => {
  describeKafkaContract('kafka, from a configuration', (proxy) => kafka({ client: kafkaThrough(proxy) }));
  describeKafkaContract('kafka, from a Kafka object', (proxy) => kafka({ client: new Kafka(kafkaThrough(proxy)) }));
});
