import { randomBytes } from 'node:crypto';
import type { TransportStatus } from '../../../lib/index.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { RabbitMqNode } from '../../support/rabbitmq-node.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { createHarness, type Harness, type RecordedHooks } from '../../support/relay.js';
import { describeUnlessMissing, serviceUrl, type Service } from '../../support/services.js';
import { until } from '../../support/until.js';

const missing: Service[] = RabbitMqNode.isInstalled ? [] : ['rabbitmq'];
if (serviceUrl('postgres') === undefined) missing.push('postgres');

describeUnlessMissing(missing, 'a RabbitMQ user whose rights are taken away while it is connected', () => {
  const user = `clerk${randomBytes(4).toString('hex')}`;
  let node: RabbitMqNode;
  let observer: RabbitMqObserver;
  let harness: Harness;
  let exchanges: [string, string, string];
  let queue: string;
  let hooks: RecordedHooks;
  let transportRelay: () => TransportStatus;
  beforeAll(async () => {
    node = await RabbitMqNode.start();
    observer = await RabbitMqObserver.connect(node.url);
    await node.ctl('add_user', user, user);
  });
  beforeEach(async () => {
    await rights('.*');
    queue = await observer.queue();
    exchanges = [
      await observer.exchange('fanout'),
      await observer.exchange('fanout'),
      await observer.exchange('fanout'),
    ];
    for (const exchange of exchanges) await observer.channel.bindQueue(queue, exchange, '');
    harness = await createHarness('postgres', { retry: { initial: 1, max: 20, maxAttempts: 3 } });
    const url = node.url.replace('guest:guest', `${user}:${user}`);
    const relay = harness.relay({ default: await rabbitmq({ url }).create() });
    hooks = relay.hooks;
    transportRelay = () => relay.dispatcher.status().transports[0] as TransportStatus;
    await relay.dispatcher.start();
    await enqueue(exchanges[0], 1); // RabbitMQ remembers that it may, until the channel is closed
    await observer.received(queue, 1);
  });
  afterEach(() => harness?.close());
  afterAll(async () => {
    await observer?.connection.close();
    await node?.remove();
  });

  const rights = (write: string): Promise<void> => node.ctl('set_permissions', user, '.*', write, '.*');
  let sent = 0;
  const enqueue = (exchange: string, count: number): Promise<string[]> =>
    harness.enqueue(
      Array.from({ length: count }, () => ({
        key: `k${++sent}`,
        topic: 'orders',
        options: JSON.stringify({ rabbitmq: { exchange } }),
      })),
    );

  it.each(['clear_permissions', 'set_permissions'])(
    'M6: charges nobody when everything is refused (%s), says so, and goes on when they are back',
    async (how) => {
      await (how === 'clear_permissions' ? node.ctl(how, user) : rights('^$'));
      const ids: string[] = [];
      for (const exchange of [...exchanges].reverse()) ids.push(...(await enqueue(exchange, 10)));
      await until(() => transportRelay().circuit !== 'closed', 60_000);
      const reasons = (): string[] => [
        transportRelay().lastError ?? '',
        ...transportRelay().away.map(({ error }) => error),
      ];
      await until(() => reasons().some((reason) => reason.includes('403 ACCESS_REFUSED')), 60_000);
      // More than three tries of all; without any right there is no connection to try them on.
      const failures = (): number => hooks.of('failed').reduce((sum, { count }) => sum + count, 0);
      await until(() => failures() > 4 * ids.length || hooks.of('circuitOpened').length >= 4, 60_000);
      expect(hooks.of('retried').filter(({ attempts }) => attempts > 0)).toEqual([]);
      expect(hooks.of('dead')).toEqual([]);
      await rights('.*');
      await observer.receivedAll(queue, ids);
      await until(async () => (await harness.count('ready')) + (await harness.count('parked')) === 0, 90_000);
      expect(hooks.of('dead')).toEqual([]);
    },
    180_000,
  );

  it('R3: a destination that alone refuses is away, and its messages wait, uncharged, until the right is back', async () => {
    await rights(`^(amq\\.default|${exchanges[0]}|${exchanges[1]})$`);
    const denied = await enqueue(exchanges[2], 30);
    const ids: string[] = [];
    while ((await harness.count('parked')) < 30) {
      ids.push(...(await enqueue(exchanges[1], 1)));
      await observer.receivedAll(queue, ids);
    }
    const failures = (): number => hooks.of('failed').reduce((sum, { count }) => sum + count, 0);
    const before = failures();
    denied.push(...(await enqueue(exchanges[2], 100)));
    await until(async () => (await harness.count('parked')) === 130);
    // Now and then, by the clock: many times less than there are, on any machine.
    expect(failures() - before).toBeLessThan(50);
    expect(transportRelay().away).toMatchObject([{ name: `exchange "${exchanges[2]}", routing key "orders"` }]);
    await rights('.*');
    await observer.receivedAll(queue, denied);
    expect(hooks.of('dead')).toEqual([]);
    expect(hooks.of('retried').filter(({ attempts }) => attempts > 0)).toEqual([]);
  });
});
