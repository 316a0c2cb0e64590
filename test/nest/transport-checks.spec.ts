import { ClientMqtt, ClientNats, ClientRedis, ClientRMQ, ClientTCP } from '@nestjs/microservices';
import { OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { clientProxy, type ClientProxyOptions } from '../../lib/transports/nest-client/index.js';
import { rabbitmq } from '../../lib/transports/rabbitmq/index.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../support/services.js';
import {
  useApplications,
  build,
  countedHealth,
  LineLogger,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
} from './support/app.js';
import { textsOf } from '../support/reasons.js';

type Client = Exclude<ClientProxyOptions['client'], string | symbol | Function>;

describeWith(['postgres', 'rabbitmq'], 'transports, looked at when the application starts', () => {
  let observer: RabbitMqObserver;
  const { applications, database } = useApplications();
  beforeAll(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  afterAll(async () => {
    await observer.close();
  });
  const app = (options: Partial<OutboxOptions>, providers: any[] = []) =>
    build([typeOrm(database), OutboxModule.forRoot(quiet(options))], providers);
  /** Starts it, and what it warned of. */
  async function started(options: Partial<OutboxOptions>, providers: any[] = []) {
    const logger = new LineLogger();
    const module = await applications.start(app({ ...options, logger, logLevel: 'warn' }, providers));
    const warnings = (): string[] => logger.lines.filter((line) => line.startsWith('warn '));
    return { outbox: module.get(OutboxService), warnings };
  }

  // Constructors of Nest's clients end the process where a driver is missing.
  const nats = Object.create(ClientNats.prototype) as Client;
  const clients: [string, Client][] = [
    ['tcp', new ClientTCP({})],
    ['redis', new ClientRedis({})],
    ['nats', nats],
    ['mqtt', Object.create(ClientMqtt.prototype) as never],
  ];

  it.each(clients)('C15: allowed, it is named in the log and in health: %s', async (_kind, client) => {
    const transport = clientProxy({ client, allowUnconfirmed: true });
    const { outbox, warnings } = await started({ relay: 'manual', transports: { default: transport } });
    await until(() => warnings().length > 0);
    expect(warnings()).toEqual([expect.stringContaining('messages can get lost')]);
    expect((await outbox.health()).transports['default']).toMatchObject({ kind: 'client-proxy', receipt: 'none' });
    const tombstone = { type: 't', topic: 't', key: 'k', payload: null };
    await expect(outbox.enqueueOutsideTransaction(tombstone)).rejects.toMatchObject({ code: 'INVALID_MESSAGE' });
  });

  it('two transports may have one client, whose options they read', async () => {
    const queue = await observer.queue();
    const client = new ClientRMQ({ urls: [requiredUrl('rabbitmq')], queue, queueOptions: { durable: true } });
    const transports = { default: clientProxy({ client }), other: clientProxy({ client: 'ORDERS' }) };
    const { outbox } = await started({ transports }, [{ provide: 'ORDERS', useValue: client }]);
    const message = { type: 'order.placed', topic: 'orders', key: '1', payload: {} };
    await outbox.enqueueOutsideTransaction({ ...message, transport: 'default' });
    await outbox.enqueueOutsideTransaction({ ...message, transport: 'other' });
    await until(async () => (await observer.depth(queue)) === 2);
  });

  it('C17: a queue that drops what was confirmed is warned of, and rightly so', async () => {
    const queue = await observer.queue({ maxLength: 1 });
    const assertQueue = [{ name: queue, options: { durable: true, maxLength: 1 } }];
    const transport = rabbitmq({
      url: requiredUrl('rabbitmq'),
      routingKey: () => queue,
      topology: { assertQueue },
    });
    const { outbox, warnings } = await started({ transports: { default: transport } });
    await until(() => warnings().length > 0);
    expect(warnings()).toEqual([expect.stringMatching(/drops its oldest messages when it is full.*reject-publish/)]);
    await outbox.transaction(() => outbox.enqueue([new OrderPlaced('1'), new OrderPlaced('2'), new OrderPlaced('3')]));
    await until(async () => (await outbox.stats()).transports['default']?.ready === 0);
    expect(await observer.depth(queue)).toBe(1); // all three were confirmed
  });

  it.each([
    [{ maxLength: 1, overflow: 'reject-publish' }, []],
    [{ maxLength: 1, deadLetterExchange: 'dlx' }, []],
    [{ arguments: { 'x-max-length-bytes': 1 } }, ['drops its oldest']],
    [{ arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish-dlx' } }, []],
    [{ messageTtl: 1_000 }, ['drops messages after a time']],
    [{ arguments: { 'x-message-ttl': 1_000, 'x-dead-letter-exchange': 'dlx' } }, []],
    [{ durable: false }, ['is not durable']],
    [{}, []],
  ])('C17: queue options %j', (options, words) => {
    const topology = { assertQueue: [{ name: 'q', options }], assertExchange: [{ name: 'x', type: 'topic' }] };
    const { warnings = [] } = rabbitmq({ url: 'amqp://127.0.0.1', topology });
    expect(warnings).toEqual(words.map((text) => expect.stringContaining(text)));
  });

  it('C17: an exchange of another type than the topology asks for: nothing is lost, health says why, and it goes on when that is mended', async () => {
    const queue = await observer.queue();
    const exchange = await observer.exchange('fanout');
    const transport = rabbitmq({
      url: requiredUrl('rabbitmq'),
      exchange,
      topology: {
        assertExchange: [{ name: exchange, type: 'topic' }],
        bind: [{ queue, exchange, routingKey: '#' }],
      },
    });
    const { outbox } = await started({ transports: { default: transport } });
    const id = await outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
    const health = await countedHealth(
      outbox, // before its leases there is a second reason
      ({ status, transports }) => status === 'down' && transports['default']?.stats?.instances === 1,
    );
    expect(textsOf(health)).toEqual([expect.stringMatching(/PRECONDITION.FAILED.*type/i)]);
    expect((await outbox.stats()).transports['default']).toMatchObject({ ready: 1, dead: 0, waiting: 0 });
    await observer.channel.deleteExchange(exchange);
    const [message] = await observer.received(queue, 1, 60_000);
    expect(message?.id).toBe(id);
  });
});
