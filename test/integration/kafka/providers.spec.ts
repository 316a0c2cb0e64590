import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { Logger } from '@nestjs/common';
import { type ISocketFactoryArgs, Kafka } from 'kafkajs';
import { kafka } from 'nestjs-outbox/kafka';
import type { OutboxTransport } from '../../../lib/index.js';
import { contractMessage, probePublish } from '../../support/publish.js';
import { FakeKafka } from '../../support/fake-kafka.js';

beforeAll(() => Logger.overrideLogger(false));

/** What the functions of the application that kafkajs connects with do at the moment. */
interface Providers {
  token(): Promise<unknown>;
  brokers(): Promise<unknown>;
}
const transports: [string, (client: any) => OutboxTransport | Promise<OutboxTransport>][] = [
  ['kafka({ client: a configuration })', (client) => kafka({ client, idempotent: false }).create()],
  ['kafka({ client: a Kafka object })', (client) => kafka({ client: new Kafka(client), idempotent: false }).create()],
];

describe.each(transports)('C16: %s, connecting again within a send, charges no message', (_name, create) => {
  const sockets = new Set<Socket>();
  let broker: FakeKafka;
  let providers: Providers;
  let transport: OutboxTransport;

  beforeEach(async () => {
    broker = await FakeKafka.start();
    const brokers = [`127.0.0.1:${broker.port}`];
    providers = { token: async () => ({ value: 'token' }), brokers: async () => brokers };
    transport = await create({
      brokers: () => providers.brokers(),
      logLevel: 0,
      sasl: { mechanism: 'oauthbearer', oauthBearerProvider: () => providers.token() },
      retry: { initialRetryTime: 10, retries: 1 },
      socketFactory: ({ host, port, onConnect }: ISocketFactoryArgs) => {
        const socket = connect({ host, port }, onConnect);
        sockets.add(socket.once('close', () => sockets.delete(socket)));
        return socket;
      },
    });
  });
  afterEach(async () => {
    await transport.close?.();
    broker.close();
  });

  const publish = async (): Promise<unknown> => {
    const [result] = (await probePublish(transport, [contractMessage({ topic: 't' })], { timeout: 60_000 })).results;
    return result!.ok ? 'ok' : result!.blame;
  };
  /** The connection ends, and kafkajs knows. */
  const lose = async (end: () => void): Promise<void> => {
    const closed = Promise.all([...sockets].map((socket) => once(socket, 'close')));
    end();
    await closed;
  };

  it.each<[string, () => Promise<unknown>]>([
    ['answers with a page of HTML', async () => JSON.parse('<html>502 Bad Gateway</html>') as unknown],
    ['has no token', async () => undefined],
    ['cannot be asked', () => Promise.reject(new Error('no token', { cause: new TypeError('terminated') }))],
  ])('when the token service %s', async (_what, away) => {
    expect(await publish()).toBe('ok');
    const { token } = providers;
    let asked = 0;
    providers.token = () => ((asked += 1), away());
    await lose(() => broker.cut());
    for (let n = 1; n <= 3; n += 1) expect(await publish()).toBe('transport');
    expect(asked).toBeGreaterThanOrEqual(3);
    providers.token = token;
    expect(await publish()).toBe('ok');
  });

  it('when the list of brokers is none', async () => {
    expect(await publish()).toBe('ok');
    let asked = 0;
    providers.brokers = async () => ((asked += 1), { error: 'not now' });
    await lose(() => broker.close());
    for (let n = 1; n <= 3; n += 1) expect(await publish()).toBe('transport');
    expect(asked).toBeGreaterThanOrEqual(1);
  });
});
