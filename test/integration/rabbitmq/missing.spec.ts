import { BLOCKED, DEAD } from '../../../lib/store/parked-state.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeOnFewer, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';
import { watch } from '../../support/watched.js';

describeOnFewer(['rabbitmq'], 'a destination of RabbitMQ that takes nothing', (kind) => {
  let harness: Harness;
  let observer: RabbitMqObserver;
  beforeAll(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  afterEach(() => harness?.close());
  afterAll(() => observer.close());

  it('R2: an exchange that there is not: one message is tried now and then, the others wait without a try, and all arrive in order when it is there', async () => {
    harness = await createHarness(kind, { retry: { maxAttempts: 1 }, pollInterval: 50 });
    const [exchange, queue, good] = [observer.unusedName(), await observer.queue(), await observer.queue()];
    const name = `exchange "${exchange}"`;
    const transport = await rabbitmq({ url: requiredUrl('rabbitmq') }).create();
    const batches = watch(transport);
    const { dispatcher, hooks } = harness.relay({ default: transport });
    const bad = (count: number) =>
      Array.from({ length: count }, (_each, n) => ({
        topic: 'missing',
        key: `k${n % 100}`,
        payload: Buffer.from(String(n)),
        options: JSON.stringify({ rabbitmq: { exchange, routingKey: 'r' } }),
      }));
    const missing = await harness.enqueue(bad(2_000));
    const others = (count: number) =>
      harness.enqueue(Array.from({ length: count }, (_each, n) => ({ topic: good, key: `g${n}` })));
    const ids = await others(50);
    await dispatcher.start();
    await observer.receivedAll(good, ids);
    const bads = new Set(missing);
    const tries = (): number => batches.flatMap((batch) => batch.ids).filter((id) => bads.has(id)).length;
    await until(async () => (await harness.count('ready')) === 0);
    const before = tries();
    missing.push(...(await harness.enqueue(bad(500))));
    for (const id of missing) bads.add(id);
    ids.push(...(await others(50)));
    await observer.receivedAll(good, ids);
    await until(async () => (await harness.count('ready')) === 0);
    // Now and then, by the clock: many times less than there are, on any machine.
    expect(tries() - before).toBeLessThan(50);
    expect(dispatcher.status().transports[0]).toMatchObject({ circuit: 'closed', away: [{ name }] });
    expect(hooks.of('destinationAway')).toMatchObject([{ destination: name }]);
    await observer.channel.assertExchange(exchange, 'direct');
    await observer.channel.bindQueue(queue, exchange, 'r');
    const found = await observer.receivedAll(queue, missing);
    for (let key = 0; key < 100; key += 1) {
      const ofKey = [...new Set(found.filter((each) => each.key === `k${key}`).map(({ id }) => id))];
      expect(ofKey).toEqual([...ofKey].sort());
    }
    await until(async () => (await harness.count('parked')) === 0);
    expect(hooks.of('dead')).toEqual([]);
    expect(hooks.of('circuitOpened')).toEqual([]);
    expect(hooks.of('destinationBack')).toMatchObject([{ destination: name }]);
  });

  it('C1: a binding is taken away under load: nothing is settled that no queue took, all arrives when it is back', async () => {
    const [exchange, topic] = [await observer.exchange(), await observer.queue()];
    await observer.channel.bindQueue(topic, exchange, '#');
    harness = await createHarness(kind, { retry: { maxAttempts: null, initial: 20, max: 200 } });
    const transport = await rabbitmq({ url: requiredUrl('rabbitmq'), exchange }).create();
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    const some = (from: number) =>
      harness.enqueue(
        Array.from({ length: 200 }, (_, n) => ({
          topic,
          key: `${topic} ${n % 9}`,
          payload: Buffer.from(String(from + n)),
        })),
      );
    const ids = await some(0);
    dispatcher.nudge();
    await hooks.until('published');
    await observer.channel.unbindQueue(topic, exchange, '#');
    ids.push(...(await some(200)));
    dispatcher.nudge();
    await hooks.until('retried');
    await observer.channel.bindQueue(topic, exchange, '#');
    const found = await observer.received(topic, ids.length);
    await until(async () => (await harness.count('ready')) + (await harness.count('parked')) === 0);
    expect(found.map(({ id }) => id).sort()).toEqual([...ids].sort());
    for (let k = 0; k < 9; k += 1) {
      const seen = found.filter(({ key }) => key === `${topic} ${k}`).map(({ content }) => Number(content));
      expect(seen).toEqual([...seen].sort((a, b) => a - b));
    }
  });

  /** What goes of the relay's own topology while it is connected. */
  const GOES: readonly (readonly [
    what: string,
    options: object,
    go: (queue: string, x: string) => Promise<unknown>,
  ])[] = [
    ['its queue is deleted', {}, (queue) => observer.channel.deleteQueue(queue)],
    ['its exchange is deleted', {}, (_, exchange) => observer.channel.deleteExchange(exchange)],
    ['its binding is taken off', {}, (queue, exchange) => observer.channel.unbindQueue(queue, exchange, 'r')],
    [
      'the last consumer of its autoDelete queue leaves',
      { autoDelete: true },
      async (queue) => {
        const { consumerTag } = await observer.channel.consume(queue, () => {}, { noAck: true });
        await observer.channel.cancel(consumerTag);
      },
    ],
  ];
  it.each(GOES)(
    'R2: %s while the relay is connected: it makes it anew, and the messages arrive',
    async (_, options, go) => {
      harness = await createHarness(kind, { retry: { maxAttempts: 1 }, pollInterval: 50 });
      const [queue, exchange] = [observer.unusedName(), observer.unusedName()];
      const transport = await rabbitmq({
        url: requiredUrl('rabbitmq'),
        exchange,
        routingKey: () => 'r',
        checkDestinations: false,
        topology: {
          assertExchange: [{ name: exchange, type: 'direct' }],
          assertQueue: [{ name: queue, options }],
          bind: [{ queue, exchange, routingKey: 'r' }],
        },
      }).create();
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await transport.connect!(AbortSignal.timeout(60_000));
      await go(queue, exchange);
      await dispatcher.start();
      await harness.enqueue([{ topic: 'any', key: 'k' }]);
      const { error } = await hooks.until('destinationAway');
      expect(error).toContain('If `topology` of rabbitmq() declares it, the relay makes it by itself.');
      await hooks.until('destinationBack');
      await until(async () => (await harness.count('ready')) + (await harness.count('parked')) === 0);
      expect([hooks.of('dead'), hooks.of('circuitOpened')]).toEqual([[], []]);
      await dispatcher.stop();
      await observer.channel.deleteQueue(queue);
    },
  );

  it('R4: retry.maxAge ends the wait of its messages, without an attempt, and the later ones of the key wait behind the dead one', async () => {
    const maxAge = 3_000;
    harness = await createHarness(kind, { retry: { maxAttempts: 1, maxAge }, pollInterval: 50 });
    const transport = await rabbitmq({ url: requiredUrl('rabbitmq') }).create();
    const { dispatcher, hooks } = harness.relay({ default: transport });
    const routingKey = observer.unusedName();
    const options = JSON.stringify({ rabbitmq: { routingKey } });
    // One that lives longer comes first: the destination is known to be away, however late that is.
    const patient = JSON.stringify({ rabbitmq: { routingKey }, $retry: { maxAge: '1h' } });
    const [ahead] = await harness.enqueue([{ topic: 'missing', key: 'ahead', options: patient }]);
    await dispatcher.start();
    await hooks.until('destinationAway');
    const began = Date.now();
    const [first] = await harness.enqueue([{ topic: 'missing', key: 'k', options }]);
    const { attempts } = await hooks.until('dead');
    const told = hooks.events.map(({ name }) => name);
    expect(told.indexOf('dead')).toBeGreaterThan(told.indexOf('destinationAway'));
    expect(told).toContain('destinationAway');
    expect(Date.now() - began).toBeGreaterThanOrEqual(maxAge);
    expect(attempts).toBe(0);
    const [second] = await harness.enqueue([{ topic: 'missing', key: 'k', options }]);
    await until(async () => (await harness.count('ready')) === 0);
    const parked: { id: string; state: number }[] = await harness.dataSource.query(
      'select id, state from outbox_parked',
    );
    expect(new Map(parked.filter(({ id }) => id !== ahead).map(({ id, state }) => [id, state]))).toEqual(
      new Map([
        [first, DEAD],
        [second, BLOCKED],
      ]),
    );
  });
});
