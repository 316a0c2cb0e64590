import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { OutboxModule, OutboxService, type OutboxHealth, type OutboxOptions } from '../../lib/index.js';
import { kafka } from '../../lib/transports/kafka/index.js';
import { rabbitmq } from '../../lib/transports/rabbitmq/index.js';
import { describeOnFewer, requiredUrl } from '../support/services.js';
import {
  useApplications,
  build,
  CollectingTransport,
  countedHealth,
  LineLogger,
  OrderPlaced,
  quiet,
  typeOrm,
  until,
} from './support/app.js';
import { textsOf } from '../support/reasons.js';

describeOnFewer(['rabbitmq'], 'health after a start, before there is a message', (kind) => {
  const { applications, database } = useApplications(kind);
  const start = async (options: Partial<OutboxOptions>): Promise<OutboxService> => {
    const outbox = OutboxModule.forRoot(quiet(options));
    return (await applications.start(build([typeOrm(database), outbox]))).get(OutboxService);
  };
  const isUp = ({ status }: OutboxHealth): boolean => status === 'up';
  const troubled = (outbox: OutboxService): Promise<OutboxHealth> =>
    countedHealth(outbox, ({ status }) => status !== 'up');

  it('C20: a broker at a wrong address is told, with the address; beside a transport that is there it is degraded', async () => {
    const wrong = kafka({ client: { clientId: 'shop', brokers: ['127.0.0.1:1'] } });
    const outbox = await start({
      transports: { orders: new CollectingTransport(), audit: wrong },
      defaultTransport: 'orders',
    });
    const health = await troubled(outbox);
    expect([health.status, textsOf(health)]).toEqual([
      'degraded',
      [expect.stringMatching(/'audit' is down: .*127\.0\.0\.1:1/)],
    ]);
    expect(health.transports['orders']).toMatchObject({ circuit: 'closed', lastError: null });
  });

  it('R6, R7: a wrong name of an exchange, and a queue that an event class needs, are told with the remedy', async () => {
    const [logger, exchange] = [new LineLogger(), `outbox-test-${randomUUID()}`];
    const url = requiredUrl('rabbitmq');
    const transports = { default: rabbitmq({ url }), wrong: rabbitmq({ url, exchange }) };
    const outbox = await start({ transports, logger, logLevel: 'warn' });
    const { status, reasons } = await countedHealth(outbox, (health) => health.reasons.length > 1);
    expect(status).toBe('degraded');
    const missing = { code: 'destination_missing', since: expect.any(Date) };
    expect(reasons).toContainEqual(
      expect.objectContaining({ ...missing, transport: 'wrong', destination: `exchange "${exchange}"` }),
    );
    const text = expect.stringMatching(/'default': queue ".+" is missing: .*Declare it/);
    expect(reasons).toContainEqual(expect.objectContaining({ ...missing, transport: 'default', text }));
    const told = (): string[] => logger.lines.filter((line) => line.includes(`There is no exchange \\"${exchange}\\"`));
    await until(() => told().length > 0);
    expect(told()).toHaveLength(1);
    const { away } = await outbox.stats();
    const [found] = away.filter(({ transport }) => transport === 'wrong');
    expect(found).toMatchObject({ destination: `exchange "${exchange}"`, waiting: 0, since: expect.any(Date) });
  });

  it('C20: one that is reached is said in the log, once', async () => {
    const logger = new LineLogger();
    // Of queues that it computes nothing is known.
    const reached = rabbitmq({ url: requiredUrl('rabbitmq'), routingKey: ({ topic }) => topic });
    const transports = { default: reached, local: new CollectingTransport() };
    const outbox = await start({ transports, defaultTransport: 'default', logger, logLevel: 'log' });
    const connected = (): string[] => logger.lines.filter((line) => line.includes('connected'));
    await until(() => connected().length > 0);
    const where = new URL(requiredUrl('rabbitmq')).host;
    expect(connected()).toEqual([
      expect.stringMatching(`^log transport 'default' connected \\(rabbitmq ${where}\\) transport=default took=`),
    ]);
    expect(await countedHealth(outbox, isUp)).toMatchObject({ reasons: [] });
  });

  it('Y4: the first message that is published is said in the log, once, and what a closed outbox is asked', async () => {
    const [logger, transport] = [new LineLogger(), new CollectingTransport()];
    const outbox = await start({ transports: { default: transport }, logger, logLevel: 'log' });
    const first = (): string[] => logger.lines.filter((line) => line.includes('published'));
    for (let n = 1; n <= 3; n++) {
      await outbox.enqueueOutsideTransaction(new OrderPlaced('1'));
      await until(() => transport.ids.length === n);
      await until(() => first().length > 0);
    }
    expect(first()).toEqual([
      expect.stringMatching(
        `^log transport 'default' published its first message since the start transport=default id=${transport.ids[0]} type=order.placed topic=orders `,
      ),
    ]);
    await applications.close();
    const { reasons } = await outbox.health();
    expect(reasons[0]?.text).toBe('This outbox is closed, as its application is: nothing can be asked of its tables.');
    expect(JSON.stringify(reasons)).not.toContain('does not answer');
  });

  it.each([false, 'manual'] as const)(
    'C20: without a relay (%s) nobody connects, and nothing is said',
    async (relay) => {
      let connections = 0;
      const server = createServer(() => (connections += 1));
      await once(server.listen(0, '127.0.0.1'), 'listening');
      const { port } = server.address() as AddressInfo;
      const outbox = await start({ relay, transports: { default: rabbitmq({ url: `amqp://127.0.0.1:${port}` }) } });
      expect(await countedHealth(outbox, isUp)).toMatchObject({ relay: { running: false } });
      await applications.close();
      expect(connections).toBe(0);
      await new Promise((resolve) => server.close(resolve));
    },
  );
});
