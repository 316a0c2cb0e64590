import amqp, { type ChannelModel } from 'amqplib';
import type { OutboxDispatcher, OutboxTransport } from '../../../lib/index.js';
import type { NewMessage } from '../../../lib/outbox-message.js';
import { rabbitmq, type RabbitMqOptions } from '../../../lib/transports/rabbitmq/index.js';
import { RabbitMqObserver, type QueueMessage } from '../../support/rabbitmq.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith, requiredUrl } from '../../support/services.js';
import { until } from '../../support/until.js';
import { watch } from '../../support/watched.js';

/** Messages around the poison, and the keys that they share. */
const NEIGHBOURS = 99;
const KEYS = 9;
const POISON = 'the poison';

interface Fields {
  userId?: string;
}
/** amqplib's inner channel, to send what its API refuses to send. */
interface InnerChannel {
  readonly ch: number;
  readonly connection: { readonly stream: { write(bytes: Buffer): void } };
  sendMessage(fields: Fields, properties: object, content: Buffer): boolean;
}
/** The application's: the transport leaves them open. */
const spoiled: ChannelModel[] = [];
/** A connection on which messages to the topic of the poison are sent as `spoil` says. */
function spoiling(spoil: (channel: InnerChannel, send: () => boolean, fields: Fields) => boolean) {
  const useFactory = async () => {
    const connection = await amqp.connect(requiredUrl('rabbitmq'));
    spoiled.push(connection);
    const create = connection.createConfirmChannel.bind(connection);
    connection.createConfirmChannel = async () => {
      const channel = await create();
      const inner = channel as unknown as InnerChannel;
      const send = inner.sendMessage.bind(inner);
      inner.sendMessage = (fields, properties, content) =>
        String(content) === POISON
          ? spoil(inner, () => send(fields, properties, content), fields)
          : send(fields, properties, content);
      return channel;
    };
    return connection;
  };
  return { connection: { useFactory } };
}
/** 200,000 bytes where 131,072 were agreed on, instead of the message. */
const frameTooLarge = ({ ch, connection }: InnerChannel): boolean => {
  const [head, payload] = [Buffer.alloc(7), Buffer.alloc(200_000)];
  head.writeUInt8(3, 0);
  head.writeUInt16BE(ch, 1);
  head.writeUInt32BE(payload.length, 3);
  connection.stream.write(Buffer.concat([head, payload, Buffer.from([206])]));
  return true;
};

interface Row {
  readonly what: string;
  readonly poison: (observer: RabbitMqObserver) => Promise<Partial<NewMessage>>;
  readonly options?: Partial<RabbitMqOptions>;
  readonly error: string;
}
const to = (settings: object): Partial<NewMessage> => ({ options: JSON.stringify({ rabbitmq: settings }) });
/** Of their destinations. */
const WAITING: readonly Row[] = [
  {
    what: '312: no queue for it',
    poison: async () => to({ routingKey: 'nowhere' }),
    error: 'There is no queue',
  },
  {
    what: 'a nack: its queue is full',
    poison: async (observer) => {
      const full = await observer.queue({ maxLength: 1, arguments: { 'x-overflow': 'reject-publish' } });
      observer.channel.sendToQueue(full, Buffer.from('first'));
      await until(async () => (await observer.depth(full)) === 1);
      return to({ routingKey: full });
    },
    error: 'nack',
  },
  {
    what: '404: an exchange that does not exist',
    poison: async (observer) => to({ exchange: observer.unusedName() }),
    error: 'There is no exchange',
  },
  {
    what: '403: an exchange that it may not publish to',
    poison: async (observer) => {
      const exchange = observer.unusedName();
      await observer.channel.assertExchange(exchange, 'topic', { internal: true });
      return to({ exchange });
    },
    error: '403 ACCESS_REFUSED',
  },
];
const CHARGED: readonly Row[] = [
  {
    what: '406: a property that the broker checks',
    poison: async () => ({}),
    options: spoiling((_channel, send, fields) => {
      fields.userId = 'somebody else';
      return send();
    }),
    error: '406 PRECONDITION_FAILED',
  },
  {
    what: '501: the connection dies of a frame',
    poison: async () => ({}),
    options: spoiling(frameTooLarge),
    error: '501 FRAME_ERROR',
  },
  {
    what: 'a property that AMQP cannot carry',
    poison: async () => to({ priority: 300 }),
    error: 'priority must be',
  },
];

describeWith(['rabbitmq', 'postgres'], 'one message that RabbitMQ refuses among a hundred', () => {
  let harness: Harness;
  let observer: RabbitMqObserver;
  let running: OutboxDispatcher | undefined;
  beforeAll(async () => {
    harness = await createHarness('postgres', { retry: { maxAttempts: 1 } });
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  afterEach(() => running?.stop());
  afterAll(async () => {
    await harness.close();
    await observer.close();
    await Promise.allSettled(spoiled.map((connection) => connection.close()));
  });

  async function run({ poison, options }: Pick<Row, 'poison' | 'options'>) {
    const topic = await observer.queue();
    const source = options?.connection === undefined ? { url: requiredUrl('rabbitmq') } : {};
    const transport: OutboxTransport = await rabbitmq({ ...source, ...options }).create();
    const batches = watch(transport);
    const rows: Partial<NewMessage>[] = Array.from({ length: NEIGHBOURS }, (_, n) => ({
      topic,
      key: `${topic} ${n % KEYS}`,
      payload: Buffer.from(String(n)),
    }));
    rows.splice(50, 0, { topic, key: `${topic} poison`, payload: Buffer.from(POISON), ...(await poison(observer)) });
    const ids = await harness.enqueue(rows);
    const relay = harness.relay({ default: transport });
    running = relay.dispatcher;
    await running.start();
    const found = await observer.received(topic, NEIGHBOURS);
    // Who was in doubt came twice.
    await until(() => new Set(found.map(({ id }) => id)).size >= NEIGHBOURS);
    return { ...relay, batches, topic, found, culprit: ids[50]!, neighbours: ids.filter((_, n) => n !== 50) };
  }

  /** First sightings per key are in order, and nobody is missing. */
  function expectAllInOrder(topic: string, found: readonly QueueMessage[]): void {
    const first = new Map(found.map((message) => [message.id, message] as const).reverse());
    const numbers = [...first.values()].reverse().filter(({ key }) => key !== null && key !== `${topic} poison`);
    expect(new Set(numbers.map(({ content }) => Number(content))).size).toBe(NEIGHBOURS);
    for (let k = 0; k < KEYS; k += 1) {
      const seen = numbers.filter(({ key }) => key === `${topic} ${k}`).map(({ content }) => Number(content));
      expect(seen).toEqual([...seen].sort((a, b) => a - b));
    }
  }

  it.each(CHARGED)('C3: $what: it alone dies, 99 are delivered, uncharged, in order', async ({ error, ...row }) => {
    const { hooks, topic, found, culprit } = await run(row);
    await hooks.until('dead');
    await until(async () => (await harness.count('ready')) === 0);
    expect(hooks.of('dead')).toMatchObject([{ id: culprit, attempts: 1, error: expect.stringContaining(error) }]);
    expect(hooks.of('retried').filter(({ attempts }) => attempts > 0)).toEqual([]); // of a right the first refusal is put off
    expectAllInOrder(topic, found);
  });

  it.each(WAITING)('R2: $what: it waits, uncharged, 99 are delivered, in order', async ({ error, ...row }) => {
    const { dispatcher, hooks, topic, found, culprit } = await run(row);
    await until(async () => (await harness.count('ready')) === 0);
    await until(() => dispatcher.status().transports[0]!.away.some((away) => away.error.includes(error)));
    expect(hooks.of('dead')).toEqual([]);
    expect(hooks.of('retried').filter(({ attempts }) => attempts > 0)).toEqual([]);
    expect(found.map(({ id }) => id)).not.toContain(culprit);
    expectAllInOrder(topic, found);
    await dispatcher.stop();
    await harness.dataSource.query(`delete from outbox_parked where id = '${culprit}'`);
  });

  it('C1: a binding is taken away under load: nothing is settled that no queue took, all arrives when it is back', async () => {
    const [exchange, topic] = [await observer.exchange(), await observer.queue()];
    await observer.channel.bindQueue(topic, exchange, '#');
    const transport = await rabbitmq({ url: requiredUrl('rabbitmq'), exchange }).create();
    const retry = { ...harness.options.retry, maxAttempts: null, initial: 20, max: 200 };
    const { dispatcher, hooks } = harness.relay({ default: transport }, { retry });
    running = dispatcher;
    await dispatcher.start();
    const some = (from: number) =>
      harness.enqueue(
        Array.from({ length: 200 }, (_, n) => ({
          topic,
          key: `${topic} ${n % KEYS}`,
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
    await until(async () => (await harness.count('ready')) + (await waiting()) === 0);
    expect(found.map(({ id }) => id).sort()).toEqual([...ids].sort());
    for (let k = 0; k < KEYS; k += 1) {
      const seen = found.filter(({ key }) => key === `${topic} ${k}`).map(({ content }) => Number(content));
      expect(seen).toEqual([...seen].sort((a, b) => a - b));
    }
  });
  const waiting = async (): Promise<number> =>
    (await harness.store.admin.stats()).reduce((n, each) => n + each.waiting + each.blocked, 0);
});
