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
import { Logger } from '@nestjs/common';
import { createServer, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { inspect } from 'node:util';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import { errorText } from '../../../lib/observe/redact/error-text.js';
import type { OutboxTransport } from '../../../lib/transports/transport.js';
import { contractMessage } from '../../../lib/testing/transport-contract/contract-message.js';
import { probePublish } from '../../../lib/testing/transport-contract/publish-probe.js';
import { assertAllOk } from '../../../lib/testing/transport-contract/run.js';
import { OwnClient } from '../../support/own-client.js';
import { describeWith, requiredUrl } from '../../support/services.js';
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
  ['Kafka without acks', new ClientKafka({ client: { brokers: ['127.0.0.1:1'] }, send: { acks: 0 } })],
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

  it.each([false, true])(
    'C8: refuses an idempotent producer, whose sequence numbers many sends at once mix up (allowUnconfirmed: %s)',
    async (allowUnconfirmed) => {
      const client = new ClientKafka({ client: { brokers: ['127.0.0.1:1'] }, producer: { idempotent: true } });
      for (const create of [
        () => clientProxy({ client, allowUnconfirmed }).create(),
        () => clientProxy({ client: 'TOKEN', allowUnconfirmed }).create(client),
      ]) {
        await expect(async () => create()).rejects.toMatchObject({
          code: 'INVALID_OPTIONS',
          message: expect.stringContaining('idempotent'),
          hint: expect.stringContaining('kafka()'),
        });
      }
    },
  );

  // The second would tear down the connection of the first, and the returns of the first be heard by nobody.
  it.each<[string, () => Client]>([
    ['ClientRMQ', () => new ClientRMQ({ urls: ['amqp://127.0.0.1:1'], queue: 'q' })],
    ['ClientKafka', () => new ClientKafka({ client: { brokers: ['127.0.0.1:1'] } })],
    ['a client of the application', () => new OwnClient()],
  ])('C8: refuses a second transport on %s until the first is closed', async (_, make) => {
    const client = make();
    const options = { allowUnconfirmed: true };
    const create = async () => clientProxy({ client, ...options }).create();
    const byToken = async () => clientProxy({ client: 'TOKEN', ...options }).create(client);
    const first = await create();
    for (const another of [create, byToken]) {
      await expect(another).rejects.toMatchObject({
        code: 'INVALID_OPTIONS',
        message: expect.stringContaining('another transport'),
        hint: expect.stringContaining('one of its own'),
      });
    }
    await first.close?.();
    const second = await byToken();
    await first.close?.(); // takes nothing from who has it now
    await expect(create).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    await second.close?.();
  });

  it('publishes the payload as a value through TCP when that was allowed', async () => {
    const [server, received] = await tcpServer();
    const { port } = server.address() as { port: number };
    const transport = await clientProxy({
      client: new ClientTCP({ port }),
      allowUnconfirmed: true,
      pattern: (message) => ({ event: message.topic }),
    }).create();
    assertAllOk(
      await probePublish(transport, [contractMessage({ topic: 'order.placed', payload: '{"n":1}' })], {
        timeout: 60_000,
      }),
    );
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

/** amqp-connection-manager rejects with the error and the URL, with the password in it. */
describeWith('rabbitmq', 'clientProxy() over ClientRMQ', () => {
  beforeAll(() => Logger.overrideLogger(false));
  afterAll(() => Logger.overrideLogger(new Logger()));

  it('says why it cannot connect, and not with which password', async () => {
    const { host } = new URL(requiredUrl('rabbitmq'));
    for (const [server, why] of [
      ['127.0.0.1:1', /ECONNREFUSED/],
      [host, /ACCESS_REFUSED/],
    ] as const) {
      const client = new ClientRMQ({ urls: [`amqp://shop:a-secret-word@${server}`], queue: 'none', noAssert: true });
      const transport = clientProxy({ client }).create() as OutboxTransport;
      const error: unknown = await transport.connect?.(AbortSignal.timeout(60_000)).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expect(errorText(error)).toMatch(why);
      expect(inspect(error, { depth: 9, showHidden: true })).not.toContain('a-secret-word');
      await transport.close?.();
    }
  });
});
