import type { InjectionToken } from '@nestjs/common';
import { misconfigured } from '../../outbox.errors.js';
import { refuseOptions } from '../../options/factory-options.js';
import { anything, objectOf, trueOrFalse } from '../../options/rules.js';
import type { AmqpConnection } from './client.js';
import { abortable } from '../abortable.js';
import type { ConnectionSource } from './link.js';
import type { RabbitMqConnectionFactory, RabbitMqConnectionOption } from './options.js';

export interface GivenConnection {
  readonly inject: readonly InjectionToken[];
  source(dependencies: unknown[]): ConnectionSource;
}

const FACTORY = objectOf({ inject: anything, useFactory: anything, own: trueOrFalse });

/** @param timeout for a connection that was given before to show that it is still there, ms */
export function givenConnection(option: RabbitMqConnectionOption, timeout: number): GivenConnection {
  if (isConnection(option)) return { inject: [], source: () => async () => shared(option) };
  if (isFactory(option)) {
    refuseOptions('rabbitmq', FACTORY.inside(option, 'connection'));
    const { inject = [], useFactory, own } = option;
    return {
      inject,
      source: (dependencies) => {
        const make = async (): Promise<AmqpConnection> => checked(await useFactory(...(dependencies as never[])));
        return own === true ? async () => ({ model: await make(), own }) : lasting(make, timeout);
      },
    };
  }
  return { inject: [option as InjectionToken], source: (dependencies) => async () => shared(dependencies[0]) };
}

/**
 * What a factory gives may be shared, so it is never closed; and it may be new at each call, so the factory is called only
 * when nothing that it gave answers any more: otherwise each reconnect would leave one behind.
 */
function lasting(make: () => Promise<AmqpConnection>, timeout: number): ConnectionSource {
  // More than one when an attempt was given up while the factory was at work.
  const known = new Set<AmqpConnection>();
  return async (signal) => {
    for (const model of known) {
      if (await answers(model, AbortSignal.any([signal, AbortSignal.timeout(timeout)]))) return shared(model);
      signal.throwIfAborted();
      known.delete(model);
    }
    const model = await make();
    // While no attempt holds it nobody else may listen, and an `error` without a listener ends the process.
    if (!known.has(model)) model.on('error', ignore);
    known.add(model);
    return shared(model);
  };
}

async function answers(model: AmqpConnection, signal: AbortSignal): Promise<boolean> {
  try {
    await abortable(openAndClose(model), signal);
    return true;
  } catch {
    return false;
  }
}

async function openAndClose(model: AmqpConnection): Promise<void> {
  const channel = await model.createChannel();
  channel.on('error', ignore);
  await channel.close();
}

function shared(model: unknown): { model: AmqpConnection; own: false } {
  return { model: checked(model), own: false };
}

function checked(model: unknown): AmqpConnection {
  if (isConnection(model)) return model;
  misconfigured('rabbitmq: connection is not a connection of amqplib (promise API).');
}

function isConnection(value: unknown): value is AmqpConnection {
  return typeof (value as Partial<AmqpConnection> | null | undefined)?.createConfirmChannel === 'function';
}
function isFactory(value: unknown): value is RabbitMqConnectionFactory {
  return typeof (value as { useFactory?: unknown } | null)?.useFactory === 'function';
}
function ignore(): void {}
