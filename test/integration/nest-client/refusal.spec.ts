import {
  ClientGrpcProxy,
  ClientKafka,
  ClientMqtt,
  ClientNats,
  ClientProxy,
  ClientRedis,
  ClientRMQ,
  ClientTCP,
} from '@nestjs/microservices';
import { createServer, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { contractMessage, expectAllOk, publish } from '../../support/publish.js';
import { OwnClient } from '../../support/own-client.js';
import { until } from '../../support/until.js';

class ShopRmqClient extends ClientRMQ {}

type Client = Pick<ClientProxy, 'connect' | 'emit' | 'close'>;
// Constructors of Nest's clients end the process where a driver is missing.
const nats = Object.create(ClientNats.prototype) as Client;

const unconfirmed = (): [string, Client][] => [
  ['TCP', new ClientTCP({})],
  ['Redis', new ClientRedis({})],
  ['NATS', nats],
  ['MQTT', Object.create(ClientMqtt.prototype) as never],
  ['a client of the application', new OwnClient()],
];

describe('clientProxy() and clients that confirm nothing', () => {
  it.each(unconfirmed())('C15: refuses %s, whether given as an object or found by its token', async (_, client) => {
    for (const create of [
      () => clientProxy({ client }).create(),
      () => clientProxy({ client: 'TOKEN' }).create(client),
    ]) {
      await expect(async () => create()).rejects.toMatchObject({ code: 'UNCONFIRMED_TRANSPORT' });
    }
  });

  it.each(unconfirmed())('C15: takes %s with allowUnconfirmed, and says what it is worth', async (_, client) => {
    const definition = clientProxy({ client, allowUnconfirmed: true });
    expect(definition.receipt).toBe('none');
    const transport = await definition.create();
    expect(transport.receipt).toBe('none');
    expect(transport.health!()).toMatchObject({
      up: false,
      state: 'closed',
      detail: expect.stringContaining('ok means'),
    });
  });

  it('knows a subclass of ClientRMQ, and a token says what to inject', async () => {
    const client = new ShopRmqClient({ urls: ['amqp://127.0.0.1:1'], queue: 'q' });
    expect(clientProxy({ client }).receipt).toBe('broker');
    const byToken = clientProxy({ client: 'ORDERS' });
    expect(byToken.inject).toEqual(['ORDERS']);
    expect((await byToken.create(client)).receipt).toBe('broker');
  });

  it('F3, F6: has the limits of kafka() with a ClientKafka', () => {
    const check = (headers: object) =>
      clientProxy({ client: kafka({}) }).limits?.check?.({
        ...{ topic: 't', key: null, type: 't', contentType: 'text/plain', payloadBytes: 1, options: {} },
        headers: headers as never,
      });
    expect([check({ id: 'forged' }), check({ x: '1' })]).toEqual(['the header name id is reserved', undefined]);
    expect(clientProxy({ client: kafka({}) }).limits).toMatchObject({ payloadBytes: 1_036_300, headerBytes: 8192 });
  });

  it.each([
    ['client', { client: undefined }],
    ['concurrency', { client: 'T', concurrency: 0 }],
    ['record', { client: 'T', record: 'rabbit' }],
  ])('names a wrong option: %s', (field, options) => {
    expect(() => clientProxy(options as never)).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTIONS', message: expect.stringContaining(field) }),
    );
  });

  it('refuses gRPC, and what is no client at all', async () => {
    const grpc = Object.create(ClientGrpcProxy.prototype) as Client;
    for (const found of [grpc, {}, 'text', undefined]) {
      await expect(async () =>
        clientProxy({ client: 'T', allowUnconfirmed: true }).create(found),
      ).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    }
  });

  it('refuses a URL of a client whose password has a bare delimiter, without its text', async () => {
    const client = new ClientRMQ({ urls: ['amqp://user:sw@xq/fish@host'], queue: 'q' });
    await expect(async () => clientProxy({ client }).create()).rejects.toMatchObject({
      code: 'INVALID_OPTIONS',
      message: expect.stringMatching(/^(?!.*(?:xq|fish)).*written %40, \/ %2F/),
    });
  });

  it('publishes the payload as a value through TCP when that was allowed', async () => {
    const [server, received] = await tcpServer();
    const { port } = server.address() as { port: number };
    const transport = await clientProxy({
      client: new ClientTCP({ port }),
      allowUnconfirmed: true,
      pattern: (message) => ({ event: message.topic }),
    }).create();
    expectAllOk(await publish(transport, [contractMessage({ topic: 'order.placed', payload: '{"n":1}' })]));
    await until(() => received.length > 0);
    const packet = '{"pattern":"{\\"event\\":\\"order.placed\\"}","data":{"n":1}}';
    expect(Buffer.concat(received).toString()).toBe(`${packet.length}#${packet}`);
    await transport.close?.();
    server.close();
  });
});

async function tcpServer(): Promise<[Server, Buffer[]]> {
  const received: Buffer[] = [];
  const server = createServer((socket: Socket) => socket.on('data', (bytes) => received.push(bytes)));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return [server, received];
}

const own = (client: Client, name: string): Client => Object.assign(client, { [name]: () => undefined });
const rmq = (options: object): Client => new ClientRMQ({ urls: ['amqp://127.0.0.1:1'], queue: 'q', ...options });
const kafka = (options: object): Client => new ClientKafka({ client: { brokers: ['127.0.0.1:1'] }, ...options });

describe('clientProxy() and what the options of a client say that the transport below cannot do', () => {
  it.each<[what: string, instead: string, client: () => Client]>([
    ['neither queue nor exchange', 'rabbitmq()', () => new ClientRMQ({})],
    ['socketOptions.findServers', 'rabbitmq()', () => rmq({ socketOptions: { findServers: () => 'amqp://other' } })],
    ['heartbeatIntervalInSeconds', 'rabbitmq()', () => rmq({ socketOptions: { heartbeatIntervalInSeconds: 0 } })],
    ['`url` in urls', 'rabbitmq()', () => rmq({ urls: [{ url: 'amqp://127.0.0.1:1', connectionOptions: {} }] })],
    ['the option mirrorTo', 'rabbitmq()', () => rmq({ mirrorTo: 'other' })],
    ['a dispatchEvent() of its own', 'rabbitmq()', () => own(rmq({}), 'dispatchEvent')],
    ['a setupChannel() of its own', 'rabbitmq()', () => own(rmq({}), 'setupChannel')],
    ['send.acks: 0', 'kafka()', () => kafka({ send: { acks: 0 } })],
    ['the option send.topic', 'kafka()', () => kafka({ send: { topic: 'elsewhere' } })],
    ['the option producer.transactionalId', 'kafka()', () => kafka({ producer: { transactionalId: 't' } })],
    ['the option mirrorTo', 'kafka()', () => kafka({ mirrorTo: 'other' })],
    ['a createClient() of its own', 'kafka()', () => own(kafka({}), 'createClient')],
  ])('is refused by name: %s (%s)', async (what, instead, make) => {
    for (const create of [() => clientProxy({ client: make() }), () => clientProxy({ client: 'T' }).create(make())]) {
      await expect(async () => create()).rejects.toMatchObject({
        code: 'INVALID_OPTIONS',
        message: expect.stringContaining(what),
        hint: expect.stringContaining(instead),
      });
    }
  });

  it.each<[string, () => Client]>([
    [
      'ClientRMQ',
      () => rmq({ prefetchCount: 5, noAck: false, replyQueue: 'r', socketOptions: { reconnectTimeInSeconds: 1 } }),
    ],
    [
      'ClientKafka',
      () =>
        kafka({
          consumer: { groupId: 'g' },
          producerOnlyMode: true,
          producer: { idempotent: true, maxInFlightRequests: 5 },
        }),
    ],
  ])('what concerns consumers, replies and connections of Nest’s own is none of it: %s', async (_, make) => {
    expect((await clientProxy({ client: make() }).create()).receipt).toBe('broker');
  });
});
