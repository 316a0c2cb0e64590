export { rabbitmq } from './publish/transports/rabbitmq.js';
export { RabbitMqPublishError, type RabbitMqTrouble } from './publish/transports/rabbitmq-blame.js';
export type { AmqpChannel, AmqpConnection } from './publish/transports/rabbitmq-client.js';
export type {
  RabbitMqConnectionFactory,
  RabbitMqConnectionOption,
  RabbitMqOptions,
  RabbitMqServer,
  RabbitMqTopology,
  RabbitMqUrl,
  RabbitMqUrlProvider,
} from './publish/transports/rabbitmq-options.js';
export type { RabbitMqMessageOptions } from './message.js';
