// @tier gate
import 'reflect-metadata';
import { Logger } from '@nestjs/common';
import { ClientKafka, ClientRMQ } from '@nestjs/microservices';
import fc from 'fast-check';
import { clientProxy } from 'nestjs-outbox/client-proxy';
import type { HeaderValue, MessageHeaders, TransportDefinition, OutboxTransport } from '../../../lib/index.js';
import { Destinations } from '../../../lib/enqueue/destinations.js';
import { EventRegistry } from '../../../lib/enqueue/events/event-registry.js';
import { toMessage } from '../../../lib/enqueue/to-message.js';
import { kafka } from '../../../lib/transports/kafka/index.js';
import { OutboxMessage, type NewMessage } from '../../../lib/outbox-message.js';
import { OutboxError } from '../../../lib/outbox.errors.js';
import { InProcessHandlers } from '../../../lib/transports/in-process/handlers.js';
import { inProcess } from '../../../lib/transports/in-process/in-process.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { arbitraryMessage, arbitraryTopic } from '../../support/arbitrary-message.js';
import { stored } from '../../support/enqueue.js';
import { kafkaConfig, TestTopics } from '../../support/kafka.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { createHarness, type Harness } from '../../support/relay.js';
import { describeWith, requiredUrl, DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';

/** What came out at the other end, as far as that end can tell. */
interface Arrived {
  readonly payload?: Buffer | null;
  /** Where the payload travels as a value. */
  readonly data?: unknown;
  readonly key?: string | null;
  readonly topic?: string;
  readonly type?: string;
  readonly contentType?: string;
  readonly version?: string;
  readonly headers: MessageHeaders;
}
type Arrivals = Map<string, Arrived>;
const MESSAGES = 100;
const batch = fc.array(fc.tuple(arbitraryMessage, arbitraryTopic), { minLength: MESSAGES, maxLength: MESSAGES });

beforeAll(() => Logger.overrideLogger(false));

describe.each(DATABASES)('%s', (kind) => {
  describeWith([kind, 'rabbitmq', 'kafka'], 'what goes in comes out', () => {
    const topics = new TestTopics();
    const transports: Record<string, OutboxTransport> = {};
    const handled: Arrivals = new Map();
    let definitions: Record<string, TransportDefinition>;
    let harness: Harness;
    let observer: RabbitMqObserver;
    let [queue, proxied, topic, proxyTopic] = ['', '', '', ''];

    beforeAll(async () => {
      await topics.start();
      [topic, proxyTopic] = [await topics.create(), await topics.create()];
      observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
      const exchange = await observer.exchange('fanout');
      [queue, proxied] = [await observer.queue(), await observer.queue()];
      await observer.channel.bindQueue(queue, exchange, '');
      const { brokers } = kafkaConfig();
      const rmq = new ClientRMQ({ urls: [requiredUrl('rabbitmq')], queue: proxied, queueOptions: { durable: true } });
      const kafkaClient = new ClientKafka({
        client: { ...kafkaConfig(), brokers: brokers as string[] },
        producerOnlyMode: true,
      });
      definitions = {
        rabbitmq: rabbitmq({ url: requiredUrl('rabbitmq'), exchange }),
        kafka: kafka({ client: kafkaConfig() }),
        rmqClient: clientProxy({ client: rmq }),
        kafkaClient: clientProxy({ client: kafkaClient }),
        handlers: inProcess(),
      };
      harness = await createHarness(kind, {
        transports: definitions,
        defaultTransport: 'handlers',
        pollInterval: 20,
        lease: '5m',
        publishTimeout: '4m',
        maxPayloadBytes: 2 ** 20,
      });
      for (const [name, definition] of Object.entries(definitions))
        transports[name] = await definition.create(handlers());
      await harness.relay(transports).dispatcher.start();
    });
    afterAll(async () => {
      await harness?.close();
      await topics.stop();
      await observer?.close();
    });

    function handlers(): InProcessHandlers {
      const all = new InProcessHandlers();
      const call = (message: OutboxMessage): unknown =>
        handled.set(message.id, {
          ...message,
          version: String(message.version),
          payload: message.payload,
          headers: message.headers,
        });
      all.of = (type) => [{ id: 'all', type, version: undefined, call }];
      return all;
    }

    /** Refused with an error of ours, or one row for this transport. */
    function row(input: object, transport: string): NewMessage | undefined {
      const { options, transportIds } = harness;
      const rules = {
        ...options,
        registry: new EventRegistry(),
        destinations: new Destinations(options, transportIds),
      };
      try {
        return toMessage(input, { transport }, rules)[0];
      } catch (error) {
        expect(error).toBeInstanceOf(OutboxError);
        return undefined;
      }
    }

    it('F4, F6: bytes, text, JSON, keys, names and headers of any content: refused at enqueue, or the same at the consumer', async () => {
      let sent = 0;
      await fc.assert(
        fc.asyncProperty(fc.integer(), async (seed) => {
          const [inputs = []] = fc.sample(batch, { seed, numRuns: 1 }); // a seed is what a reader of a failure can use
          const rows = inputs.flatMap(([message, any]) =>
            Object.keys(definitions).flatMap((transport) => {
              const fixed = { kafka: topic, kafkaClient: proxyTopic }[transport];
              return row({ ...message, topic: fixed ?? any }, transport) ?? [];
            }),
          );
          await harness.enqueue(rows);
          sent += rows.length;
          await until(async () => (await harness.count('ready')) === 0, 120_000);
          expect(await harness.dataSource.query('select topic, last_error from outbox_parked')).toEqual([]);
          const arrived = await arrivals(rows);
          for (const each of rows) compare(stored(each), arrived.get(each.id), each.transport);
        }),
        { numRuns: 2, endOnFailure: true },
      );
      expect(sent).toBeGreaterThan(MESSAGES * 5); // most can be sent
    });

    async function arrivals(rows: readonly NewMessage[]): Promise<Arrivals> {
      const all: Arrivals = new Map(handled);
      const of = (name: string): string[] =>
        rows.filter(({ transport }) => transport === harness.transportIds.get(name)).map(({ id }) => id);
      for (const each of await observer.receivedAll(queue, of('rabbitmq'))) {
        const { type, contentType } = each.properties as Record<string, string>;
        const { version } = each.headers as Record<string, string>;
        all.set(each.id, { ...each, type, contentType, version, topic: each.fields.routingKey } as Arrived);
      }
      for (const { id, content, headers = {} } of await observer.receivedAll(proxied, of('rmqClient'))) {
        const { pattern, data } = JSON.parse(content.toString()) as { pattern: string; data: unknown };
        const key = (headers['key'] as string | undefined) ?? null;
        all.set(id, { topic: pattern, data, key, headers, ...standard(headers) });
      }
      for (const name of [topic, proxyTopic]) {
        for (const { key, value, headers } of await topics.read(name, await topics.total(name), { timeout: 60_000 })) {
          const found = headers as MessageHeaders;
          all.set(text(found['id']), {
            payload: value,
            key: key === null ? null : String(key),
            headers: found,
            ...standard(found),
          });
        }
      }
      return all;
    }

    function compare(sent: OutboxMessage, found: Arrived | undefined, transport: number): void {
      const name = [...harness.transportIds].find(([, id]) => id === transport)?.[0];
      const seen = { ...found, headers: onlyOf(found?.headers, sent.headers) };
      const { payload, key, topic: sentTopic, type, contentType, version, headers } = sent;
      const all = { payload, data: asValue(sent), key, topic: sentTopic, type, contentType, version: String(version) };
      const fields = Object.keys(all).filter((field) => found !== undefined && field in found);
      expect({ transport: name, ...pick(seen, fields), headers: seen.headers }).toEqual({
        transport: name,
        ...pick(all, fields),
        headers: onlyOf(headers, headers),
      });
      expect(fields.length).toBeGreaterThanOrEqual(4);
    }
  });
});

const text = (value: HeaderValue | undefined): string => Buffer.from(value as string).toString();
/** As text: Jest compares buffers byte by byte, which takes minutes. */
const pick = (from: object, names: string[]): object =>
  Object.fromEntries(names.map((name) => [name, printed((from as Record<string, unknown>)[name])]));
const printed = (value: unknown): unknown =>
  value instanceof Uint8Array ? `hex ${Buffer.from(value).toString('hex')}` : JSON.stringify(value);

function standard(headers: MessageHeaders): Partial<Arrived> {
  return { type: text(headers['type']), version: text(headers['version']), contentType: text(headers['content-type']) };
}

/** What Nest's packet holds of it. */
function asValue({ payload, contentType }: OutboxMessage): unknown {
  if (payload === null) return null;
  const decoded = payload.toString();
  if (/json/.test(contentType)) return JSON.parse(decoded);
  return contentType.startsWith('text/') && Buffer.from(decoded).equals(payload) ? decoded : payload.toJSON();
}

/** Those that were sent, as lists of hex: brokers repeat a name or keep an array. kafkajs' decoder adds what objects inherit. */
function onlyOf(headers: MessageHeaders | undefined, sent: MessageHeaders): Record<string, string[]> {
  const all = new Map<string, string[]>();
  for (const name of Object.keys(sent)) {
    const value: unknown = Object.hasOwn(headers ?? {}, name) ? headers?.[name] : undefined;
    const values = (Array.isArray(value) ? value : [value]).filter(
      (one) => typeof one === 'string' || one instanceof Uint8Array,
    );
    all.set(
      name,
      values.map((one) => Buffer.from(one as string).toString('hex')),
    );
  }
  return Object.fromEntries(all);
}
