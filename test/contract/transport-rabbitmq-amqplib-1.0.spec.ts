import { describeRabbitMqContract } from '../support/rabbitmq-contract.js';

// The oldest one of its major that the peer range lets in (test/unit/package/peers.spec.ts).
jest.mock('amqplib', () => jest.requireActual<object>('amqplib-1.0'));

describeRabbitMqContract('amqplib 1.0', true);
