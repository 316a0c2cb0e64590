import { describeRabbitMqTls } from './rabbitmq-tls.contract.js';

describeRabbitMqTls('amqplib 2');
