import { describeRabbitMqFaults } from './rabbitmq-faults.contract.js';

describeRabbitMqFaults('amqplib 2');
