import { describeRabbitMqCodes } from './codes.contract.js';

describeRabbitMqCodes('amqplib 2');
