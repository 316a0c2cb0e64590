import { describeRabbitMqCodes } from './codes.contract.js';
import { describeRabbitMqFaults } from './faults.contract.js';
import { describeRabbitMqTls } from './tls.contract.js';

// The oldest one of its major that the peer range lets in (test/unit/package/peers.spec.ts).
jest.mock('amqplib', () => jest.requireActual<object>('amqplib-0.10'));

describeRabbitMqCodes('amqplib 0.10');
describeRabbitMqFaults('amqplib 0.10');
describeRabbitMqTls('amqplib 0.10');
