import { kindOfClient, type ClientKind, type NestClient } from './kind.js';

/** The option with a client's list of servers; NATS shuffles it if it may. Of ClientKafka kafkajs has it, see `Seeds`. */
const LISTS: Partial<Readonly<Record<ClientKind, string>>> = {
  rmq: 'urls',
  nats: 'servers',
  mqtt: 'servers',
  redis: 'sentinels',
};

/**
 * The next connection begins with the next server. Below a client a library tries them in turn, and each life of ours begins
 * anew: one server that takes the connection and says nothing would be where all of them end.
 */
export function beginWithNext(client: NestClient): void {
  const name = LISTS[kindOfClient(client)];
  const servers: unknown = name && client.options?.[name];
  if (name === undefined || !Array.isArray(servers) || servers.length < 2) return;
  // The options are the application's, perhaps of other clients too, and may have getters.
  const { options } = client;
  const own = Object.getOwnPropertyDescriptors(options);
  const turned = { value: [...(servers as unknown[]).slice(1), servers[0]], enumerable: true, writable: true };
  client.options = Object.create(Object.getPrototypeOf(options) as object, {
    ...own,
    [name]: turned,
    ...(kindOfClient(client) === 'nats' ? { noRandomize: { value: true, enumerable: true } } : {}),
  }) as NonNullable<NestClient['options']>;
}
