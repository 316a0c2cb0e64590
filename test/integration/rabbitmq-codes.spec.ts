import { describeRabbitMqCodes } from './rabbitmq-codes.contract.js';

describeRabbitMqCodes('amqplib 2');
