import type { InjectionToken } from '@nestjs/common';
import type { TransportDefinition } from '../../outbox.options.js';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { OutboxTransport } from '../transport.js';
import { loadAmqplib, type Amqplib, type AmqpConnection } from './rabbitmq-client.js';
import { openConnection } from './rabbitmq-connection.js';
import { rabbitMqLimits } from './rabbitmq-limits.js';
import type { ConnectionSource } from './rabbitmq-link.js';
import {
  resolveRabbitMqOptions,
  type RabbitMqConnectionOption,
  type RabbitMqOptions,
  type RabbitMqSettings,
} from './rabbitmq-options.js';
import { topologyWarnings } from './rabbitmq-topology.js';
import { RabbitMqTransport } from './rabbitmq-transport.js';

/** Publishes to RabbitMQ through amqplib, which is loaded when a relay starts. */
export function rabbitmq(options: RabbitMqOptions): TransportDefinition {
  const settings = resolveRabbitMqOptions(options);
  const limits = rabbitMqLimits(settings);
  const given = options.connection === undefined ? undefined : givenConnection(options.connection);
  return {
    kind: 'rabbitmq',
    receipt: 'broker',
    limits,
    warnings: topologyWarnings(settings.topology),
    ...(given === undefined ? {} : { inject: given.inject }),
    create: async (...dependencies: unknown[]): Promise<OutboxTransport> =>
      new RabbitMqTransport(
        settings,
        limits,
        given?.source(dependencies) ?? ownConnections(await loadAmqplib(), settings),
      ),
  };
}

function ownConnections(amqplib: Amqplib, settings: RabbitMqSettings): ConnectionSource {
  let next = 0;
  return async (signal) => {
    const { model, index } = await openConnection(amqplib, settings, next, signal);
    // After a loss the others come first: the one that was used may be what failed.
    next = index + 1;
    return { model, own: true };
  };
}

interface GivenConnection {
  readonly inject: readonly InjectionToken[];
  source(dependencies: unknown[]): ConnectionSource;
}

function givenConnection(option: RabbitMqConnectionOption): GivenConnection {
  if (isConnection(option)) return { inject: [], source: () => async () => foreign(option) };
  if (isFactory(option)) {
    const { inject = [], useFactory } = option;
    return { inject, source: (dependencies) => async () => foreign(await useFactory(...(dependencies as never[]))) };
  }
  return {
    inject: [option as InjectionToken],
    source:
      ([connection]) =>
      async () =>
        foreign(connection),
  };
}

function foreign(model: unknown): { model: AmqpConnection; own: false } {
  if (isConnection(model)) return { model, own: false };
  throw new OutboxConfigurationError(
    'INVALID_OPTIONS',
    'rabbitmq: connection is not a connection of amqplib (promise API).',
  );
}
function isConnection(value: unknown): value is AmqpConnection {
  return typeof (value as Partial<AmqpConnection> | null)?.createConfirmChannel === 'function';
}
function isFactory(
  value: unknown,
): value is { inject?: readonly InjectionToken[]; useFactory: (...d: never[]) => AmqpConnection } {
  return typeof (value as { useFactory?: unknown } | null)?.useFactory === 'function';
}
