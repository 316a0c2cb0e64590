import { describeRabbitMqCodes } from './rabbitmq-codes.contract.js';
import { describeRabbitMqFaults } from './rabbitmq-faults.contract.js';
import { describeRabbitMqTls } from './rabbitmq-tls.contract.js';

// The oldest one of its major that the peer range lets in (test/unit/peers.spec.ts).
jest.mock('amqplib', () => jest.requireActual<object>('amqplib-0.10'));

describeRabbitMqCodes('amqplib 0.10');
describeRabbitMqFaults('amqplib 0.10');
describeRabbitMqTls('amqplib 0.10');
