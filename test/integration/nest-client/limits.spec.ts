import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { ClientRMQ } from '@nestjs/microservices';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { type OutboxMessage, type OutboxTransport, OutboxMessageError } from '../../../lib/index.js';
import { contractMessage, publish } from '../../support/publish.js';
import { enqueued } from '../../support/enqueue.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';

const long = (bytes: number): string => 'x'.repeat(bytes);
beforeAll(() => Logger.overrideLogger(false));

/** Either refused at enqueue, or taken by the broker. */
async function verdict(client: ClientRMQ, transport: OutboxTransport, input: object): Promise<string> {
  const message = enqueued({ type: 'x', payload: 'y', ...input }, clientProxy({ client }));
  if (message instanceof OutboxMessageError) return 'refused';
  const results = await publish(transport, [message as OutboxMessage]);
  expect(results).toEqual([{ ok: true }]);
  return 'delivered';
}

describeWith('rabbitmq', 'what ClientRMQ can carry', () => {
  let observer: RabbitMqObserver;
  let client: ClientRMQ;
  let transport: OutboxTransport;
  beforeAll(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
    const queue = await observer.queue();
    client = new ClientRMQ({ urls: [requiredUrl('rabbitmq')], queue, queueOptions: { durable: true } });
    transport = await clientProxy({ client }).create();
  });
  afterAll(async () => {
    await transport?.close?.();
    await observer?.close();
  });

  // 60 KiB, without what the outbox adds: 670 bytes, and the content type.
  const table = 60 * 1024 - 670 - 'application/json'.length;
  it.each([
    ['headers, limit - 1', { headers: { x: long(table - 8) } }, 'delivered'],
    ['headers, limit', { headers: { x: long(table - 7) } }, 'delivered'],
    ['headers, limit + 1', { headers: { x: long(table - 6) } }, 'refused'],
    ['type, 255 bytes', { type: long(255) }, 'delivered'],
    ['type, 256 bytes in 128 characters', { type: 'ü'.repeat(128) }, 'refused'],
    ['topic, 1020 bytes, which is no routing key here', { topic: '💥'.repeat(255) }, 'delivered'],
    ['the header content-type', { headers: { 'content-type': 'forged' } }, 'refused'],
    ['the header CC', { headers: { CC: 'elsewhere' } }, 'refused'],
  ])('F3, F6: %s: refused at enqueue or delivered', async (_name, input, expected) => {
    expect(await verdict(client, transport, input)).toBe(expected);
  });

  it.each([{ exchange: 'elsewhere' }, { exchange: '' }, { routingKey: 'elsewhere' }])(
    'F3: a place that ClientRMQ does not send to is refused: %j',
    async (options) => {
      const input = { options: { rabbitmq: options } };
      expect(await verdict(client, transport, input)).toBe('refused');
      // Rows of other programs, and those for a client that is named by its token, are checked by nobody before.
      const results = await publish(transport, [contractMessage({ topic: 't', ...input })]);
      expect(results).toMatchObject([{ ok: false, blame: 'message', final: true, error: { code: 'INVALID_MESSAGE' } }]);
    },
  );

  it('F3: a place is not refused where a function of the application may read it', async () => {
    const exchange = await observer.exchange();
    const bound = await observer.queue();
    await observer.channel.bindQueue(bound, exchange, 'there');
    const topics = new ClientRMQ({ urls: [requiredUrl('rabbitmq')], exchange, wildcards: true });
    const pattern = ({ options, topic }: OutboxMessage): string => options.rabbitmq?.routingKey ?? topic;
    const definition = clientProxy({ client: topics, pattern });
    const message = enqueued(
      { type: 'x', payload: 'y', options: { rabbitmq: { routingKey: 'there' } } },
      definition,
    ) as OutboxMessage;
    const byPattern = await definition.create();
    const results = await publish(byPattern, [message]);
    expect(results).toEqual([{ ok: true }]);
    expect(await observer.depth(bound)).toBe(1);
    await byPattern.close!();
  });

  // Nothing is known at enqueue of a client that is named by its token, or of rows that other programs insert.
  it.each([{ type: long(256) }, { headers: { x: long(70_000) } }, { headers: { CC: 'elsewhere' } }])(
    'C3: what AMQP cannot carry is dead, and the next message gets through: %#',
    async (fields) => {
      const batch = [contractMessage({ topic: 't', ...fields }), contractMessage({ topic: 't' })];
      const results = await publish(transport, batch);
      expect(results).toMatchObject([{ ok: false, blame: 'message', final: true }, { ok: true }]);
    },
  );
});
