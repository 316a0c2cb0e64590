import type { ClientProxy } from '@nestjs/microservices';
import type { InjectionToken } from '@nestjs/common';
import type { OutboxMessage } from '../../outbox-message.js';
import { misconfigured, OutboxConfigurationError } from '../../outbox.errors.js';
import type { TransportDefinition } from '../../outbox.options.js';
import { noObject } from '../../options/option-names.js';
import { markFactory, resolveFactory, row, type FactoryTable } from '../../options/factory-options.js';
import { anything, INVALID, integer, oneOf, orFunction } from '../../options/rules.js';
import type { TransportLimits } from '../transport.js';
import { isNestClient, kindOf } from './kind.js';
import { throughKafka } from './kafka.js';
import { throughRabbitMq } from './rabbitmq.js';
import type { EventSettings } from './event-maker.js';
import type { RecordOption } from './record.js';
import { UnconfirmedTransport, WORTH } from './unconfirmed.js';

export interface ClientProxyOptions {
  /**
   * Is the client, or its injection token (`ClientsModule.register([{ name: 'ORDERS', … }])`). Of a client of RabbitMQ or Kafka only
   * the options are used. Any other client is connected and closed by the transport. Required.
   */
  client: Pick<ClientProxy, 'connect' | 'emit' | 'close'> | InjectionToken;
  /** Returns the first argument of `emit`, or a promise of it within the publish timeout. Default: the message's topic. */
  pattern?: (message: OutboxMessage) => unknown;
  /**
   * Chooses the second argument of `emit`. A function may return a promise of it within the publish timeout. Default: `auto`, which
   * is a record of Kafka or RabbitMQ, and the parsed payload for other clients.
   */
  record?: RecordOption;
  /** Accepts a client whose `emit` does not wait for the broker, so that messages can get lost. Default: false. */
  allowUnconfirmed?: boolean;
  /** Limits the messages of one batch that are made, or emitted, at the same time. Default: 50. */
  concurrency?: number;
}

const TABLE: FactoryTable<ClientProxyOptions> = {
  factory: 'clientProxy()',
  needed: 'client',
  rows: {
    client: row({
      allowed: 'a ClientProxy or its injection token',
      needed: true,
      parse: (value) => value ?? INVALID,
    }),
    pattern: row(anything),
    record: row(orFunction(oneOf('auto', 'kafka', 'rmq', 'plain')), 'auto'),
    allowUnconfirmed: row(anything, false),
    concurrency: row(integer(1, 10_000), 50),
  },
};

/** A transport for a client of `@nestjs/microservices`. */
export function clientProxy(options: ClientProxyOptions): TransportDefinition {
  const { client, allowUnconfirmed, ...settings } = resolveFactory(TABLE, options) as Checked;
  if (isNestClient(client)) return definitionOf(client, settings, allowUnconfirmed);
  // What the token stands for is not known before the relay starts.
  return {
    kind: 'client-proxy',
    receipt: allowUnconfirmed ? 'none' : 'broker',
    warnings: allowUnconfirmed ? [`${UNCONFIRMED}, unless the client is one of Kafka or RabbitMQ.`] : [],
    limits: ANY_LIMITS,
    inject: [client as InjectionToken],
    create: (found) => definitionOf(found, settings, allowUnconfirmed).create(),
  };
}
markFactory(clientProxy, 'clientProxy({ … })');

type Checked = EventSettings & { readonly client: unknown; readonly allowUnconfirmed: boolean };

/** Of a client that only its token is known of. */
const ANY_LIMITS: TransportLimits = {
  check: ({ options }) => noObject('options.kafka', options.kafka) ?? noObject('options.rabbitmq', options.rabbitmq),
};
/** `emit(pattern, null)` is refused by Nest. */
const UNCONFIRMED_LIMITS: TransportLimits = { tombstones: false };
const UNCONFIRMED =
  'clientProxy(): nothing confirms what is published (allowUnconfirmed), so that messages can get lost';

function definitionOf(client: unknown, settings: EventSettings, allowUnconfirmed: boolean): TransportDefinition {
  if (!isNestClient(client))
    throw refused(`client must be a ClientProxy, which has emit() and connect(), and is ${typeof client}`);
  const { kind } = kindOf(client);
  if (kind === 'rmq') return throughRabbitMq(client, settings);
  if (kind === 'kafka') return throughKafka(client, settings);
  return {
    kind: 'client-proxy',
    receipt: 'none',
    warnings: [`${UNCONFIRMED}: ${WORTH[kind]}.`],
    limits: UNCONFIRMED_LIMITS,
    create: () => {
      if (kind === 'grpc') throw refused('a gRPC client cannot emit events');
      if (allowUnconfirmed) return new UnconfirmedTransport(client, kind, settings, UNCONFIRMED_LIMITS);
      const hint = 'Use a broker that confirms, or set allowUnconfirmed: true and accept that messages get lost.';
      const text = `clientProxy(): emit() of this ${kind} client proves nothing: ${WORTH[kind]}.`;
      misconfigured(text, hint, 'UNCONFIRMED_TRANSPORT');
    },
  };
}

function refused(text: string): OutboxConfigurationError {
  return new OutboxConfigurationError('INVALID_OPTIONS', `clientProxy(): ${text}.`);
}
