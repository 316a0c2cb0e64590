import type { AmqpChannel } from './rabbitmq-client.js';
import type { RabbitMqConnection } from './rabbitmq-connection.js';
import type { RabbitMqOptions, RabbitMqTopology } from './rabbitmq-options.js';

/** On a channel of its own, so that a refused assertion closes nothing else. */
export async function assertTopology(
  connection: RabbitMqConnection,
  topology: NonNullable<RabbitMqOptions['topology']>,
): Promise<void> {
  const channel = await connection.model.createChannel();
  channel.on('error', () => {
    // The assertion that caused it rejects with the same reason.
  });
  await (typeof topology === 'function' ? topology(channel) : assertAll(channel, topology));
  await channel.close();
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
