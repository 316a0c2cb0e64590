import { describeRabbitMqContract } from '../support/rabbitmq-contract.js';

// The oldest one of its major that the peer range lets in (test/unit/package/peers.spec.ts).
jest.mock('amqplib', () => jest.requireActual<object>('amqplib-0.10'));

describeRabbitMqContract('amqplib 0.10', true);
