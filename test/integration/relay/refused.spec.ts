import amqp, { type ChannelModel } from 'amqplib';
import type { OutboxDispatcher, OutboxTransport } from '../../../lib/index.js';
import type { NewMessage } from '../../../lib/outbox-message.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { kafkaConfig, TestTopics } from '../../support/kafka.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith, requiredUrl, type Service } from '../../support/services.js';
import { until } from '../../support/until.js';

/** Messages around the poison, and the keys that they share. */
const NEIGHBOURS = 99;
const KEYS = 9;
const POISON = 'the poison';

interface Row {
  readonly what: string;
  /** A part of what is told of it. */
  readonly error: string;
  /** What it has that its neighbours have not. */
  poison?(): Promise<Partial<NewMessage>>;
  readonly options?: object;
}
interface Seen {
  readonly key: string;
  readonly content: string;
}
interface Broker {
  readonly service: Service;
  readonly charged: readonly Row[];
  /** Those of a destination. */
  readonly waiting: readonly Row[];
  start(): Promise<void>;
  stop(): Promise<void>;
  topic(): Promise<string>;
  open(options?: object): OutboxTransport | Promise<OutboxTransport>;
  /** All that arrived, once so many messages have. */
  seen(topic: string, count: number): Promise<readonly Seen[]>;
}

/** amqplib's inner channel, to send what its API refuses to send. */
interface InnerChannel {
  readonly ch: number;
  readonly connection: { readonly stream: { write(bytes: Buffer): void } };
  sendMessage(fields: { userId?: string }, properties: object, content: Buffer): boolean;
}
/** The application's: the transport leaves them open. */
const spoiled: ChannelModel[] = [];
/** A connection on which the poison is sent as `spoil` says. */
function spoiling(spoil: (channel: InnerChannel, send: () => boolean, fields: { userId?: string }) => boolean): object {
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

let observer: RabbitMqObserver;
const to = (rabbit: object): Partial<NewMessage> => ({ options: JSON.stringify({ rabbitmq: rabbit }) });
const RABBITMQ: Broker = {
  service: 'rabbitmq',
  charged: [
    {
      what: '406: a property that the broker checks',
      options: spoiling((_channel, send, fields) => {
        fields.userId = 'somebody else';
        return send();
      }),
      error: '406 PRECONDITION_FAILED',
    },
    { what: '501: the connection dies of a frame', options: spoiling(frameTooLarge), error: '501 FRAME_ERROR' },
    {
      what: 'a property that AMQP cannot carry',
      poison: async () => to({ priority: 300 }),
      error: 'priority must be',
    },
  ],
  waiting: [
    { what: '312: no queue for it', poison: async () => to({ routingKey: 'nowhere' }), error: 'There is no queue' },
    {
      what: 'a nack: its queue is full',
      poison: async () => {
        const full = await observer.queue({ maxLength: 1, arguments: { 'x-overflow': 'reject-publish' } });
        observer.channel.sendToQueue(full, Buffer.from('first'));
        await until(async () => (await observer.depth(full)) === 1);
        return to({ routingKey: full });
      },
      error: 'nack',
    },
    {
      what: '404: an exchange that does not exist',
      poison: async () => to({ exchange: observer.unusedName() }),
      error: 'There is no exchange',
    },
    {
      what: '403: an exchange that it may not publish to',
      poison: async () => {
        const exchange = observer.unusedName();
        await observer.channel.assertExchange(exchange, 'topic', { internal: true });
        return to({ exchange });
      },
      error: '403 ACCESS_REFUSED',
    },
  ],
  async start() {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  },
  async stop() {
    await observer.close();
    await Promise.allSettled(spoiled.map((connection) => connection.close()));
  },
  topic: () => observer.queue(),
  open: (options = { url: requiredUrl('rabbitmq') }) => rabbitmq(options).create(),
  async seen(topic, count) {
    const found = await observer.received(topic, count);
    await until(() => new Set(found.map(({ id }) => id)).size >= count); // who was in doubt came twice
    return found.map(({ key, content }) => ({ key: String(key), content: String(content) }));
  },
};

const topics = new TestTopics();
const bytes = (count: number): Buffer => Buffer.alloc(count, 'x');
const of = async (settings: Record<string, string>, fields: Partial<NewMessage>): Promise<Partial<NewMessage>> => ({
  topic: await topics.create(1, settings),
  ...fields,
});
/** Of rights and logins: codes.spec.ts. Of leaders, replicas, disks and all the rest: answers.spec.ts. */
const KAFKA: Broker = {
  service: 'kafka',
  charged: [
    {
      what: 'MESSAGE_TOO_LARGE',
      poison: () => of({ 'max.message.bytes': '1000' }, { payload: bytes(2_000) }),
      error: 'MESSAGE_TOO_LARGE',
    },
    {
      // Kafka makes no segments below 1 MiB.
      what: 'RECORD_LIST_TOO_LARGE',
      poison: () => of({ 'max.message.bytes': '2000000', 'segment.bytes': '1048576' }, { payload: bytes(1_100_000) }),
      options: { maxMessageBytes: 2_000_000 },
      error: 'RECORD_LIST_TOO_LARGE',
    },
    {
      what: 'INVALID_RECORD',
      poison: () => of({ 'cleanup.policy': 'compact' }, { key: null }),
      error: 'INVALID_RECORD',
    },
    {
      what: 'INVALID_TIMESTAMP',
      poison: () =>
        of(
          { 'message.timestamp.before.max.ms': '3600000' },
          { options: JSON.stringify({ kafka: { timestamp: 1_000 } }) },
        ),
      error: 'INVALID_TIMESTAMP',
    },
    {
      what: 'INVALID_TOPIC_EXCEPTION',
      poison: async () => ({ topic: 'no topic at all!' }),
      error: 'INVALID_TOPIC_EXCEPTION',
    },
  ],
  waiting: [
    {
      what: 'UNKNOWN_TOPIC_OR_PARTITION',
      poison: async () => ({ topic: TestTopics.name() }),
      error: 'UNKNOWN_TOPIC_OR_PARTITION',
    },
  ],
  start: () => topics.start(),
  stop: () => topics.stop(),
  topic: () => topics.create(3),
  open: (options) => kafka({ client: kafkaConfig(), ...options }).create(),
  seen: async (topic, count) =>
    (await topics.read(topic, count)).map(({ key, value }) => ({ key: String(key), content: String(value) })),
};

describe.each([RABBITMQ, KAFKA])('one message that $service refuses among a hundred', (broker) => {
  describeWith([broker.service, 'postgres'], 'and the others', () => {
    let harness: Harness;
    let running: OutboxDispatcher | undefined;
    beforeAll(async () => {
      harness = await createHarness('postgres', { retry: { maxAttempts: 1 } });
      await broker.start();
    });
    afterEach(() => running?.stop());
    afterAll(async () => {
      await harness.close();
      await broker.stop();
    });

    async function run({ poison, options }: Row) {
      const topic = await broker.topic();
      const rows: Partial<NewMessage>[] = Array.from({ length: NEIGHBOURS }, (_, n) => ({
        topic,
        key: `${topic} ${n % KEYS}`,
        payload: Buffer.from(String(n)),
      }));
      const bad = { topic, key: `${topic} poison`, payload: Buffer.from(POISON), ...(await poison?.()) };
      const ids = await harness.enqueue([...rows.slice(0, 50), bad, ...rows.slice(50)]);
      const relay = harness.relay({ default: await broker.open(options) });
      running = relay.dispatcher;
      await running.start();
      const expectAllInOrder = async (): Promise<void> => {
        const found = (await broker.seen(topic, NEIGHBOURS)).filter(({ content }) => content !== POISON);
        for (let k = 0; k < KEYS; k += 1) {
          const first = new Set(
            found.filter(({ key }) => key === `${topic} ${k}`).map(({ content }) => Number(content)),
          );
          expect([...first]).toEqual(Array.from({ length: NEIGHBOURS / KEYS }, (_, n) => n * KEYS + k));
        }
        expect(found.every(({ key }) => key !== bad.key)).toBe(true);
      };
      return { ...relay, culprit: ids[50]!, expectAllInOrder };
    }

    it.each(broker.charged)('C3, C10: $what: it alone dies, 99 are delivered, uncharged, in order', async (row) => {
      const { hooks, culprit, expectAllInOrder } = await run(row);
      await hooks.until('dead');
      await expectAllInOrder();
      await until(async () => (await harness.count('ready')) === 0);
      expect(hooks.of('dead')).toMatchObject([{ id: culprit, attempts: 1, error: expect.stringContaining(row.error) }]);
      expect(hooks.of('retried').filter(({ attempts }) => attempts > 0)).toEqual([]); // of a right the first refusal is put off
    });

    it.each(broker.waiting)('C10, R2: $what: it waits, uncharged, 99 are delivered, in order', async (row) => {
      const { dispatcher, hooks, culprit, expectAllInOrder } = await run(row);
      await until(async () => (await harness.count('ready')) === 0);
      await until(() => dispatcher.status().transports[0]!.away.some(({ error }) => error.includes(row.error)));
      await expectAllInOrder();
      // Until others get through, a right that is missing looks like a login that has lost all of them.
      const opened = row.error.startsWith('403') ? [] : hooks.of('circuitOpened');
      expect([hooks.of('dead'), opened]).toEqual([[], []]);
      expect(hooks.of('retried').filter(({ attempts }) => attempts > 0)).toEqual([]);
      await dispatcher.stop();
      await harness.dataSource.query(`delete from outbox_parked where id = '${culprit}'`);
    });
  });
});
