// For the consumer's side: a Nest microservice on RabbitMQ or Kafka. Loads no client and not @nestjs/microservices.
export {
  outboxDeserializer,
  type IncomingPacket,
  type MicroserviceDeserializer,
  type OutboxDeserializerOptions,
} from './outbox-deserializer.js';
export type { MessageLabels } from './labels.js';
export { receivedMessage, type BrokerContext, type ReceivedMessage } from './received-message.js';
export { Received } from './received.decorator.js';
export { upcast } from './upcast.js';
