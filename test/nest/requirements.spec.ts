import { eachRole } from '../support/each-role.js';
import {
  OutboxDispatcher,
  OutboxEvent,
  OutboxModule,
  OutboxService,
  type OutboxEventName,
  type OutboxOptions,
} from '../../lib/index.js';
import { kafka } from '../../lib/transports/kafka/index.js';
import { rabbitmq } from '../../lib/transports/rabbitmq/index.js';
import { resolveOptions } from '../../lib/options/resolve.js';
import { openStore } from '../support/open-store.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { kafkaConfig, TestTopics } from '../support/kafka.js';
import { RabbitMqObserver } from '../support/rabbitmq.js';
import { DATABASES, describeWith, requiredUrl } from '../support/services.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import {
  Applications,
  build,
  CollectingTransport,
  failure,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
} from './support/app.js';

const applications = new Applications();
let database: TestDatabase;

const start = (options: Partial<OutboxOptions>, providers: any[] = [], at = database) =>
  applications.start(build([typeOrm(at), OutboxModule.forRoot(quiet(options))], providers));
const RELAY_EVENTS: OutboxEventName[] = [
  'published',
  'retried',
  'dead',
  'circuitOpened',
  'circuitClosed',
  'error',
  'warning',
];

function record({ events }: OutboxService): { name: string; event: any }[] {
  const told: { name: string; event: any }[] = [];
  for (const name of RELAY_EVENTS) events.on(name, (event) => void told.push({ name, event }));
  return told;
}

describeWith('postgres', 'what an application sees of its outbox', () => {
  beforeEach(async () => {
    database = await createTestDatabase('postgres');
  });
  afterEach(async () => {
    await applications.close();
    await database.drop();
  });

  it('works with a store of its own', async () => {
    const calls: string[] = [];
    const transport = new CollectingTransport();
    const app = await start({
      relay: 'manual',
      transports: { default: transport },
      store: (dataSource, { buckets, ordering, coordination, onPublished }) => {
        const options = resolveOptions({ transports: { default: transport } }, {}).database;
        const store = openStore(dataSource, { options, buckets, ordering, coordination, onPublished });
        const watched = <T extends object>(role: T): T =>
          new Proxy(role, {
            get(target, name) {
              calls.push(String(name));
              const value: unknown = Reflect.get(target, name);
              return typeof value === 'function' ? (value.bind(target) as unknown) : value;
            },
          });
        return eachRole(store, watched);
      },
    });
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('o-1'));
    expect(await app.get(OutboxDispatcher).drain()).toMatchObject({ published: 1 });
    expect(calls).toEqual(expect.arrayContaining(['insert', 'fetch', 'settle']));
    await applications.close();
    const promised = quiet({ store: (async () => ({})) as never });
    expect((await failure(build([typeOrm(database), OutboxModule.forRoot(promised)]))).message).toContain(
      'store: it returned a Promise',
    );
  });

  it('hears of the errors of every worker while the database is away, and all of them go on', async () => {
    const proxy = await TcpProxy.start(database.url);
    const url = new URL(database.url);
    url.host = `${proxy.host}:${proxy.port}`;
    const transport = new CollectingTransport();
    const through = { ...database, options: { type: 'postgres', url: url.href } } as TestDatabase;
    const options = {
      transports: { default: transport },
      lease: '10s',
      publishTimeout: '1s',
      retention: { every: '1s' },
    } as const;
    const app = await start(options, [], through);
    const outbox = app.get(OutboxService);
    const told = record(outbox);
    outbox.events.on('error', () => new Promise(() => {})); // nobody who matters
    await until(() => app.get(OutboxDispatcher).status().transports[0]?.buckets.length === 32);
    void proxy.refuse();
    proxy.cut();
    await expect(outbox.enqueueOutsideTransaction(new OrderPlaced('refused'))).rejects.toThrow();
    await until(() =>
      ['fetch', 'take', 'unlock', 'clean'].every((one) => told.some(({ event }) => event.operation === one)),
    );
    expect(await outbox.health()).toMatchObject({
      status: 'down',
      reasons: expect.arrayContaining([expect.objectContaining({ text: expect.stringContaining('database') })]),
    });
    await proxy.accept();
    await until(async () => (await outbox.health()).status === 'up');
    const id = await outbox.enqueueOutsideTransaction(new OrderPlaced('accepted'));
    await until(() => transport.ids.includes(id));
    // Everything that one relay tells has one id.
    const { owner } = app.get(OutboxDispatcher).status();
    expect(new Set(told.filter(({ event }) => 'runId' in event).map(({ event }) => event.runId))).toEqual(
      new Set([owner]),
    );
    await applications.close();
    await proxy.close();
  });
});

describeWith([...DATABASES, 'rabbitmq', 'kafka'], 'settings of one broker', () => {
  const topics = new TestTopics();
  let observer: RabbitMqObserver;
  beforeAll(async () => {
    await topics.start();
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  afterEach(async () => {
    await applications.close();
    await database.drop();
  });
  afterAll(async () => {
    await observer.close();
    await topics.stop();
  });

  it.each(DATABASES)('are stored with the message on %s, and its consumers see them', async (kind) => {
    database = await createTestDatabase(kind);
    const topic = await topics.create(3);
    const queue = await observer.queue();
    @OutboxEvent<Rated>({
      type: `rated.${kind}`,
      topic: (event) => event.topic,
      key: (event) => event.id,
      transport: ['rabbit', 'log'],
      options: (event) => ({
        rabbitmq: { priority: event.stars, correlationId: 'of the class' },
        kafka: { partition: 2 },
      }),
    })
    class Rated {
      constructor(
        readonly id: string,
        readonly stars: number,
        readonly topic: string,
      ) {}
    }
    const app = await start({
      relay: 'manual',
      publishTimeout: '20s',
      defaultTransport: 'log',
      transports: {
        rabbit: rabbitmq({ url: requiredUrl('rabbitmq'), exchange: '', routingKey: () => queue }),
        log: kafka({ client: kafkaConfig() }),
      },
    });
    const options = {
      kafka: { timestamp: 1_600_000_000_000 },
      rabbitmq: { correlationId: 'of the call', expiration: 60_000 },
    };
    const id = await app.get(OutboxService).enqueueOutsideTransaction(new Rated('r-1', 5, topic), { options });
    expect(await app.get(OutboxDispatcher).drain({ timeout: 60_000 })).toEqual({ published: 2, retried: 0, dead: 0 });
    const [delivered] = await observer.received(queue, 1, 60_000);
    expect(delivered).toMatchObject({
      id,
      properties: { priority: 5, correlationId: 'of the call', expiration: '60000' },
    });
    expect(await topics.read(topic, 1, { timeout: 60_000 })).toMatchObject([
      { partition: 2, timestamp: '1600000000000' },
    ]);
  });
});
