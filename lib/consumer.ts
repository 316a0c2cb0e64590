// For the consumer's side: a Nest microservice on RabbitMQ or Kafka. Loads no client and not @nestjs/microservices.
export {
  outboxDeserializer,
  type IncomingPacket,
  type MicroserviceDeserializer,
  type OutboxDeserializerOptions,
} from './consume/outbox-deserializer.js';
export { receivedMessage, type BrokerContext, type ReceivedMessage } from './consume/received-message.js';
export { Received } from './consume/received.decorator.js';
