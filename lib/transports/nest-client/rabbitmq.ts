import type { RmqOptions } from '@nestjs/microservices';
import { OutboxMessage } from '../../outbox-message.js';
import type { TransportDefinition } from '../../outbox.options.js';
import {
  enqueuedOptionsProblem,
  MAX_HEADER_TABLE,
  namesProblem,
  shortProblem,
  STANDARD_NAMES,
  standardSize,
  tableProblem,
  tableSize,
} from '../amqp/limits.js';
import type { RabbitMqPublish } from '../rabbitmq/client.js';
import type { RabbitMqOptions, RabbitMqTopology, RabbitMqUrl } from '../rabbitmq/options.js';
import { rabbitmqSending } from '../rabbitmq/rabbitmq.js';
import type { TransportLimits } from '../transport.js';
import { optionsOf } from './client-options.js';
import type { EventSettings } from './event-maker.js';
import type { NestClient, Packet } from './kind.js';
import { placeProblem, RmqMessage, type RmqProperties } from './record.js';
import { served } from './served.js';

type ClientRmqOptions = NonNullable<RmqOptions['options']>;

const CLIENT = {
  name: 'ClientRMQ',
  instead: 'rabbitmq()',
  read: [
    ...['urls', 'socketOptions', 'queue', 'queueOptions', 'noAssert', 'exchange', 'exchangeType', 'exchangeArguments'],
    ...['wildcards', 'routingKey', 'headers', 'persistent', 'serializer'],
  ],
  ignored: [
    ...['prefetchCount', 'isGlobalPrefetchCount', 'noAck', 'consumerTag', 'replyQueue', 'deserializer'],
    'maxConnectionAttempts',
  ],
  methods: ['emit', 'createPacket', 'dispatchEvent', 'mergeHeaders', 'createClient', 'createChannel', 'setupChannel'],
};

/** `rabbitmq()` with the options of a ClientRMQ, and its messages: Nest's packet as the body. */
export function throughRabbitMq(client: NestClient, settings: EventSettings): TransportDefinition {
  const options = optionsOf<ClientRmqOptions>(client, CLIENT, problemsOf);
  const made = new WeakMap<OutboxMessage, RabbitMqPublish>();
  const make = async (message: OutboxMessage, emitted: Packet): Promise<OutboxMessage> => {
    const publish = await publishOf(client, options, message, emitted);
    const { messageId } = publish.properties as { messageId: string };
    // A return tells its message by this id.
    const as = messageId === message.id ? message : new OutboxMessage({ ...message, id: messageId });
    for (const one of [message, as]) made.set(one, publish);
    return as;
  };
  const definition = rabbitmqSending(rabbitMqOptionsOf(options), (message) => made.get(message)!);
  return served(definition, { kind: 'rmq', limits: rmqLimits(settings), settings, make });
}

function problemsOf({ urls, queue, exchange, socketOptions = {} }: ClientRmqOptions): string[] {
  const { findServers, heartbeatIntervalInSeconds: heartbeat = 1 } = socketOptions;
  return [
    ...(queue || exchange ? [] : ['neither queue nor exchange']),
    ...(findServers === undefined ? [] : ['the option socketOptions.findServers']),
    ...(heartbeat >= 1 ? [] : ['socketOptions.heartbeatIntervalInSeconds below 1']),
    ...(urls?.some((one) => Object.hasOwn(Object(one) as object, 'url')) ? ['an object with `url` in urls'] : []),
  ];
}

/** What Nest's `createClient` and `setupChannel` make of them. */
function rabbitMqOptionsOf(options: ClientRmqOptions): RabbitMqOptions {
  const { queue = '', urls = ['amqp://localhost'], socketOptions = {} } = options;
  const { heartbeatIntervalInSeconds: heartbeat, connectionOptions } = socketOptions;
  return {
    urls: urls as RabbitMqUrl[],
    exchange: placeOf(options, '').exchange,
    routingKey: () => queue,
    topology: topologyOf(options),
    ...(connectionOptions && { socket: connectionOptions }),
    ...(heartbeat !== undefined && { heartbeat: heartbeat * 1_000 }),
  };
}

function topologyOf(options: ClientRmqOptions): RabbitMqTopology {
  const { queue = '', queueOptions = {}, noAssert = queueOptions['noAssert'], exchange, routingKey } = options;
  if (hasExchange(options)) {
    const { exchangeType: type = 'topic', exchangeArguments = {} } = options;
    const { exchange: name } = placeOf(options, '');
    return { assertExchange: [{ name, type, options: { durable: true, arguments: exchangeArguments } }] };
  }
  return {
    assertQueue: noAssert ? [] : [{ name: queue, options: queueOptions }],
    bind: exchange && routingKey ? [{ queue, exchange, routingKey }] : [],
  };
}

function hasExchange({ wildcards, exchangeType }: ClientRmqOptions): boolean {
  return Boolean(wildcards) || exchangeType === 'fanout';
}

/** Where Nest's `dispatchEvent` sends an event with this pattern. */
function placeOf(options: ClientRmqOptions, pattern: unknown): Pick<RabbitMqPublish, 'exchange' | 'routingKey'> {
  const { queue = '', exchange = queue } = options;
  if (!hasExchange(options)) return { exchange: '', routingKey: queue };
  return { exchange, routingKey: typeof pattern === 'string' ? pattern : JSON.stringify(pattern) };
}

/** As Nest's `dispatchEvent`, but persistent, with an id, and returned where no queue takes it: that is what `ok` is worth. */
async function publishOf(
  client: NestClient,
  options: ClientRmqOptions,
  message: OutboxMessage,
  { pattern, data: given }: Packet,
): Promise<RabbitMqPublish> {
  if (given === undefined) throw new TypeError('There is nothing to emit: the record is undefined.');
  const [data, own] = given instanceof RmqMessage ? [given.data, given.properties] : [given];
  const packet = client.createPacket?.(pattern, data) ?? { pattern, data };
  const serialized = Object(await client.serializer.serialize(packet)) as { options?: RmqProperties };
  const properties = own ?? serialized.options ?? {};
  delete serialized.options;
  return {
    ...placeOf(options, pattern),
    content: Buffer.from(JSON.stringify(serialized)),
    properties: {
      ...properties,
      headers: { ...options.headers, ...properties.headers },
      persistent: properties.persistent ?? true,
      messageId: properties.messageId ?? message.id,
      mandatory: true,
    },
  };
}

/** The payload travels inside Nest's packet, the rest as with rabbitmq(), but for the place. */
function rmqLimits({ pattern, record }: EventSettings): TransportLimits {
  const standard = [...STANDARD_NAMES, 'content-type'];
  // A function of the application may do something with the place.
  const isRead = pattern !== undefined || typeof record === 'function';
  return {
    check: ({ type, contentType, headers, options }) =>
      enqueuedOptionsProblem(options.rabbitmq) ??
      shortProblem('type', options.rabbitmq?.type ?? type) ??
      (isRead ? undefined : placeProblem(options.rabbitmq)) ??
      namesProblem(headers, standard) ??
      tableProblem(tableSize(headers) + standardSize(type) + Buffer.byteLength(contentType), MAX_HEADER_TABLE),
  };
}
