import { describeRabbitMqTls } from './tls.contract.js';

describeRabbitMqTls('amqplib 2');
