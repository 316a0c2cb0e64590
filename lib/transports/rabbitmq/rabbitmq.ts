import type { TransportDefinition } from '../../outbox.options.js';
import { markFactory } from '../../options/factory-options.js';
import type { OutboxTransport } from '../transport.js';
import { brokerAddress } from '../broker-address.js';
import { loadAmqplib, type Amqplib, type RabbitMqEncoder } from './client.js';
import { openConnection, serverOf } from './connection.js';
import { givenConnection } from './application-connection.js';
import { rabbitMqLimits } from './limits.js';
import type { ConnectionSource } from './link.js';
import { resolveRabbitMqOptions } from './option-checks.js';
import type { RabbitMqOptions, RabbitMqSettings } from './options.js';
import { topologyWarnings } from './topology.js';
import { RabbitMqTransport } from './transport.js';

/** Publishes to RabbitMQ through amqplib, which is loaded when a relay starts. */
export function rabbitmq(options: RabbitMqOptions): TransportDefinition {
  return rabbitmqSending(options);
}
markFactory(rabbitmq, 'rabbitmq({ … })');

/** @param encode gives what is sent in place of what we make of a message */
export function rabbitmqSending(options: RabbitMqOptions, encode?: RabbitMqEncoder): TransportDefinition {
  const settings: RabbitMqSettings = { ...resolveRabbitMqOptions(options), encode };
  const limits = rabbitMqLimits(settings);
  const { connection } = options;
  const given = connection === undefined ? undefined : givenConnection(connection, settings.connectTimeout);
  const broker = brokerAddress(options.urls ?? [options.url]);
  return {
    kind: 'rabbitmq',
    ...(broker === undefined ? {} : { broker }),
    receipt: 'broker',
    limits,
    warnings: [...deliveryWarnings(settings), ...topologyWarnings(settings)],
    ...(given === undefined ? {} : { inject: given.inject }),
    create: async (...dependencies: unknown[]): Promise<OutboxTransport> =>
      new RabbitMqTransport(
        settings,
        limits,
        given?.source(dependencies) ?? ownConnections(await loadAmqplib(), settings),
      ),
  };
}

function deliveryWarnings({ mandatory, persistent }: RabbitMqSettings): string[] {
  return [...(mandatory ? [] : [MANDATORY_WARNING]), ...(persistent ? [] : [PERSISTENT_WARNING])];
}

const MANDATORY_WARNING =
  'rabbitmq({ mandatory: false }): a message that no queue takes is lost, and counts as published. Leave mandatory out: it is a failure then, tried again.';
const PERSISTENT_WARNING =
  'rabbitmq({ persistent: false }): a restart of the broker drops messages that it confirmed. Leave persistent out: durable queues keep them then.';

function ownConnections(amqplib: Amqplib, settings: RabbitMqSettings): ConnectionSource {
  let next = 0;
  return async (signal, asked) => {
    // The next attempt begins with another one: the one that was used, or asked in vain, may be what failed.
    const model = await openConnection(amqplib, settings, next, signal, (index) => {
      next = index + 1;
      const server = settings.servers[index]!;
      asked?.(typeof server === 'function' ? undefined : serverOf(server));
    });
    return { model, own: true };
  };
}
