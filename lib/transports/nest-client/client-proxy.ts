import type { ClientProxy } from '@nestjs/microservices';
import type { InjectionToken } from '@nestjs/common';
import type { OutboxMessage } from '../../outbox-message.js';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import type { TransportDefinition } from '../../outbox.options.js';
import {
  ANY_LIMITS,
  isIdempotentKafka,
  isNestClient,
  kindOfClient,
  limitsOf,
  type NestClient,
  receiptOf,
  WORTH,
} from './kind.js';
import { ENCODED, isMisread } from '../broker-address.js';
import { markFactory, resolveFactory, row, type FactoryTable } from '../../options/factory-options.js';
import { anything, INVALID, integer, oneOf, orFunction } from '../../options/rules.js';
import type { RecordOption } from './record.js';
import { ClientProxyTransport } from './transport.js';

export interface ClientProxyOptions {
  /**
   * Is the client, or its injection token (`ClientsModule.register([{ name: 'ORDERS', … }])`). Give each transport a client of its
   * own. Required.
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
  /** Limits the messages of one batch that are emitted at the same time. Default: 50. */
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
    pattern: row(anything, topicOf),
    record: row(orFunction(oneOf('auto', 'kafka', 'rmq', 'plain')), 'auto'),
    allowUnconfirmed: row(anything, false),
    concurrency: row(integer(1, 10_000), 50),
  },
};

/** A transport over a client of `@nestjs/microservices`. */
export function clientProxy(options: ClientProxyOptions): TransportDefinition {
  const { client, pattern, record, allowUnconfirmed, concurrency } = resolveFactory(
    TABLE,
    options,
  ) as Required<ClientProxyOptions>;
  const readsOptions = options.pattern !== undefined || typeof record === 'function';
  const create = (found: unknown): ClientProxyTransport => {
    const checked = confirmed(found, allowUnconfirmed);
    return new ClientProxyTransport(checked, { pattern, record, concurrency, readsOptions });
  };
  if (!isNestClient(client)) {
    // What the token stands for is not known before the relay starts; `create` looks again.
    return {
      kind: 'client-proxy',
      receipt: allowUnconfirmed ? 'none' : 'broker',
      ...(allowUnconfirmed ? { warnings: [`${UNCONFIRMED}, unless the client is one of Kafka or RabbitMQ.`] } : {}),
      limits: ANY_LIMITS,
      inject: [client as InjectionToken],
      create,
    };
  }
  return {
    kind: 'client-proxy',
    receipt: receiptOf(client),
    ...(receiptOf(client) === 'none' ? { warnings: [`${UNCONFIRMED}: ${worthOf(client)}.`] } : {}),
    limits: limitsOf(kindOfClient(client), readsOptions),
    create: () => create(client),
  };
}
markFactory(clientProxy, 'clientProxy({ … })');

const NO_ANSWER = 'with acks: 0 the broker sends no answer';
const UNCONFIRMED =
  'clientProxy(): nothing confirms what is published (allowUnconfirmed), so that messages can get lost';

function confirmed(client: unknown, allowUnconfirmed: boolean): NestClient {
  if (!isNestClient(client)) throw invalid('client', typeof client, 'a ClientProxy, which has emit() and connect()');
  const kind = kindOfClient(client);
  if (kind === 'grpc') throw invalid('client', 'a gRPC client', 'a client that can emit events');
  if (urlsOf(client).some(isMisread)) throw invalid('client', undefined, `one whose URLs can be read; ${ENCODED}`);
  if (isIdempotentKafka(client)) {
    throw new OutboxConfigurationError(
      'INVALID_OPTIONS',
      'clientProxy(): a ClientKafka with an idempotent producer reports records as stored that are not, as emit() sends many at once.',
      {
        hint: 'Leave producer.idempotent out, or use kafka(), whose producers are idempotent with one send at a time.',
      },
    );
  }
  if (receiptOf(client) === 'none' && !allowUnconfirmed) {
    throw new OutboxConfigurationError(
      'UNCONFIRMED_TRANSPORT',
      `clientProxy(): emit() of this ${kind} client proves nothing: ${worthOf(client)}.`,
      { hint: 'Use a broker that confirms, or set allowUnconfirmed: true and accept that messages get lost.' },
    );
  }
  return client;
}

/** As ClientRMQ, ClientNats, ClientMqtt have them. Hosts without a protocol are none. */
function urlsOf({ options }: NestClient): string[] {
  const given = [options?.['urls'], options?.['servers'], options?.['url']].flat();
  return given.filter((one): one is string => typeof one === 'string' && one.includes('://'));
}

/** Of one that confirms nothing. */
function worthOf(client: NestClient): string {
  const kind = kindOfClient(client);
  return kind === 'kafka' ? NO_ANSWER : WORTH[kind];
}

function topicOf(message: OutboxMessage): string {
  return message.topic;
}

function invalid(field: string, value: unknown, allowed: string): OutboxConfigurationError {
  const shown = typeof value === 'string' || typeof value === 'number' ? ` is ${JSON.stringify(value)},` : '';
  return new OutboxConfigurationError('INVALID_OPTIONS', `clientProxy(): ${field}${shown} must be ${allowed}.`);
}
