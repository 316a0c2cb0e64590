import type { AmqpChannel } from './client.js';
import type { RabbitMqConnection } from './connection.js';
import type { RabbitMqOptions, RabbitMqTopology } from './options.js';

/** On a channel of its own, so that a refused assertion closes nothing else. */
export async function assertTopology(
  connection: RabbitMqConnection,
  topology: NonNullable<RabbitMqOptions['topology']>,
): Promise<void> {
  const channel = await connection.openChannel();
  try {
    await (typeof topology === 'function' ? topology(channel) : assertAll(channel, topology));
  } finally {
    await channel.close().catch(() => undefined); // the broker closes it over what it refuses
  }
}

async function assertAll(
  channel: AmqpChannel,
  { assertExchange = [], assertQueue = [], bind = [] }: RabbitMqTopology,
): Promise<void> {
  for (const { name, type, options } of assertExchange) await channel.assertExchange(name, type, options);
  for (const { name, options } of assertQueue) await channel.assertQueue(name, options);
  for (const { queue, exchange, routingKey, arguments: args } of bind)
    await channel.bindQueue(queue, exchange, routingKey, args);
}

/** An exchange of RabbitMQ's plugin of that name takes a message now and routes it later. */
const LATER = 'x-delayed-message';

/**
 * What would lose messages that RabbitMQ has confirmed, as far as the options tell: AMQP does not show the arguments of a
 * queue that is there, nor a policy of the broker. And what would send them without end.
 */
export function topologyWarnings({ topology, mandatory }: Pick<RabbitMqOptions, 'topology' | 'mandatory'>): string[] {
  if (topology === undefined || typeof topology === 'function') return [];
  const { assertQueue = [], assertExchange = [] } = topology;
  return [
    ...assertQueue.flatMap(({ name, options }) => queueWarnings(name, new QueueOptions(options))),
    ...assertExchange
      .filter(({ options }) => new QueueOptions(options).of('durable') === false)
      .map(({ name }) => `RabbitMQ: the exchange '${name}' is not durable: a restart of the broker drops it.`),
    ...assertExchange
      .filter(({ type }) => mandatory === true && type === LATER)
      .map(
        ({ name }) =>
          `RabbitMQ: the exchange '${name}' (${LATER}) returns a message that it delays, and delivers it all the same: the message is sent again and again. Take another type, and \`delay\` or \`deliverAt\` of the outbox; or set mandatory: false.`,
      ),
  ];
}

function queueWarnings(name: string, options: QueueOptions): string[] {
  const queue = `RabbitMQ: the queue '${name}'`;
  const kept = options.of('deadLetterExchange', 'x-dead-letter-exchange') !== undefined;
  const limited =
    options.of('maxLength', 'x-max-length') !== undefined || options.of('', 'x-max-length-bytes') !== undefined;
  const refuses = String(options.of('overflow', 'x-overflow')).startsWith('reject-publish');
  const expires = options.of('messageTtl', 'x-message-ttl') !== undefined;
  const found: string[] = [];
  if (limited && !refuses && !kept) {
    found.push(
      `${queue} drops its oldest messages when it is full, confirmed ones. Set overflow 'reject-publish', or a dead-letter exchange.`,
    );
  }
  if (expires && !kept)
    found.push(`${queue} drops messages after a time (TTL), confirmed ones. Set a dead-letter exchange.`);
  if (options.of('durable') === false)
    found.push(`${queue} is not durable: a restart of the broker drops it with its messages.`);
  return found;
}

/** amqplib's names and AMQP's arguments mean the same. */
class QueueOptions {
  private readonly named: Record<string, unknown>;

  constructor(options: object | undefined) {
    this.named = (options ?? {}) as Record<string, unknown>;
  }

  of(name: string, argument = ''): unknown {
    return this.named[name] ?? (this.named['arguments'] as Record<string, unknown> | undefined)?.[argument];
  }
}
