export { rabbitmq } from './rabbitmq.js';
export { RabbitMqPublishError, type RabbitMqTrouble } from '../amqp/blame.js';
export type { AmqpChannel, AmqpConnection } from './client.js';
export type {
  RabbitMqConnectionFactory,
  RabbitMqConnectionOption,
  RabbitMqOptions,
  RabbitMqServer,
  RabbitMqTopology,
  RabbitMqUrl,
  RabbitMqUrlProvider,
} from './options.js';
export type { RabbitMqMessageOptions } from '../../outbox-message.js';
