import { describeRabbitMqCodes } from './codes.contract.js';
import { describeRabbitMqFaults } from './faults.contract.js';
import { describeRabbitMqTls } from './tls.contract.js';

// The oldest one of its major that the peer range lets in (test/unit/package/peers.spec.ts).
jest.mock('amqplib', () => jest.requireActual<object>('amqplib-1.0'));

describeRabbitMqCodes('amqplib 1.0');
describeRabbitMqFaults('amqplib 1.0');
describeRabbitMqTls('amqplib 1.0');
