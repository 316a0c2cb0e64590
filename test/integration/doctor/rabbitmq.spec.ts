import amqp from 'amqplib';
import { OutboxModule, OutboxService, type OutboxOptions } from '../../../lib/index.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { Applications, build, OrderPlaced, quiet, typeOrm } from '../../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { diagnose, problem, problems } from '../../support/doctor.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

describeWith(['postgres', 'rabbitmq'], 'what the doctor learns of RabbitMQ', () => {
  let database: TestDatabase;
  let observer: RabbitMqObserver;
  const applications = new Applications();
  beforeAll(async () => {
    database = await createTestDatabase('postgres');
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  afterEach(() => applications.close());
  afterAll(async () => {
    await observer.close();
    await database.drop();
  });
  const start = (transport: Partial<RabbitMqOptions>, options: Partial<OutboxOptions> = {}) => {
    const url = 'connection' in transport ? {} : { url: requiredUrl('rabbitmq') };
    const definition = rabbitmq({ checkDestinations: false, ...url, ...transport } as RabbitMqOptions);
    const all = quiet({ transports: { default: definition }, relay: false, ...options });
    return applications.start(build([typeOrm(database), OutboxModule.forRoot(all)]));
  };
  const enqueue = (app: Awaited<ReturnType<typeof start>>, topic: string) =>
    app.get(OutboxService).enqueueOutsideTransaction({ type: 'order.placed', topic, key: 'k', payload: {} }, {});

  it('an exchange that is missing, until it is declared; bindings that AMQP does not tell', async () => {
    const exchange = observer.unusedName();
    const app = await start({ exchange });
    await enqueue(app, 'orders.new');
    const finding = await problem(app, 'destination-missing');
    expect(finding).toMatchObject({
      severity: 'error',
      evidence: { destination: `exchange "${exchange}"`, replyCode: 404 },
    });
    expect(finding.fix).toMatch(`Declare the exchange '${exchange}'`);
    await observer.channel.assertExchange(exchange, 'topic');
    const report = await diagnose(app);
    expect(problems(report, 'destination-missing')).toEqual([]);
    expect(report.findings).toContainEqual(expect.objectContaining({ code: 'destination', severity: 'ok' }));
    const [unknown] = problems(report, 'not-knowable');
    expect(unknown).toMatchObject({ severity: 'note', evidence: { exchange } });
    expect(unknown?.evidence['routingKeys']).toMatch('orders.new');
  });

  it('a queue that the backlog names, until it is declared; and that nobody consumes it', async () => {
    const queue = await observer.queue();
    await observer.channel.deleteQueue(queue);
    const app = await start({ exchange: '' });
    await enqueue(app, queue);
    const mine = (finding: { evidence: object }) => JSON.stringify(finding.evidence).includes(queue);
    expect(await problem(app, 'destination-missing', {}, mine)).toMatchObject({ severity: 'error' });
    await observer.channel.assertQueue(queue, { durable: true });
    expect(problems(await diagnose(app), 'destination-missing').some(mine)).toBe(false);
    observer.channel.sendToQueue(queue, Buffer.from('waits'));
    expect(await problem(app, 'consumer-missing', {}, mine)).toMatchObject({
      severity: 'note',
      evidence: { messages: 1, consumers: 0 },
    });
    await observer.channel.purgeQueue(queue);
    expect(problems(await diagnose(app), 'consumer-missing').some(mine)).toBe(false);
  });

  it('a broker that is away, with its address and the reason, until it is back', async () => {
    const proxy = await TcpProxy.start(requiredUrl('rabbitmq'));
    const url = new URL(requiredUrl('rabbitmq'));
    url.host = `${proxy.host}:${proxy.port}`;
    const app = await start({ url: url.href, exchange: 'amq.topic' });
    expect(problems(await diagnose(app), 'broker')).toEqual([]);
    await proxy.refuse();
    const finding = await problem(app, 'broker');
    expect(finding).toMatchObject({
      severity: 'error',
      evidence: { kind: 'rabbitmq', broker: `${proxy.host}:${proxy.port}` },
    });
    expect(finding.text).toMatch('ECONNREFUSED');
    expect(JSON.stringify(finding)).not.toMatch('guest:guest');
    await proxy.close();
  });

  it('nothing over a connection of the application, and makes nothing', async () => {
    const connection = await amqp.connect(requiredUrl('rabbitmq'));
    const app = await start({ connection: { useFactory: () => connection }, exchange: observer.unusedName() } as never);
    expect(await problem(app, 'not-asked')).toMatchObject({ severity: 'note' });
    const channel = await connection.createChannel();
    await channel.close();
    await connection.close();
    await applications.close();
    const queue = await observer.queue();
    await observer.channel.deleteQueue(queue);
    const making = await start({ exchange: '', topology: { assertQueue: [{ name: queue }] } });
    const mine = (finding: { evidence: object }) => JSON.stringify(finding.evidence).includes(queue);
    await problem(making, 'destination-missing', {}, mine);
    expect(problems(await diagnose(making), 'destination-missing').some(mine)).toBe(true);
  });

  it('and is not asked at all when brokers are left out', async () => {
    const app = await start({ exchange: observer.unusedName() });
    await app.get(OutboxService).enqueueOutsideTransaction(new OrderPlaced('x'));
    const { findings } = await diagnose(app, { brokers: false });
    expect(findings.some(({ code }) => code === 'broker' || code === 'destination-missing')).toBe(false);
  });
});
