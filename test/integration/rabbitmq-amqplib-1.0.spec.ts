import { describeRabbitMqCodes } from './rabbitmq-codes.contract.js';
import { describeRabbitMqFaults } from './rabbitmq-faults.contract.js';
import { describeRabbitMqTls } from './rabbitmq-tls.contract.js';

// The oldest one of its major that the peer range lets in (test/unit/peers.spec.ts).
jest.mock('amqplib', () => jest.requireActual<object>('amqplib-1.0'));

describeRabbitMqCodes('amqplib 1.0');
describeRabbitMqFaults('amqplib 1.0');
describeRabbitMqTls('amqplib 1.0');
