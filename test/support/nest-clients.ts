import { ClientMqtt, ClientNats, type ClientProxy, ClientRedis } from '@nestjs/microservices';
import { connect } from '@nats-io/transport-node';
import { Redis } from 'ioredis';
import { connectAsync } from 'mqtt';
import { requiredUrl, type Service } from './services.js';

/** The server of one kind of Nest client, heard by a listener of its own library. */
export interface NestServer {
  readonly address: string;
  /** Payloads, in the order of their arrival. */
  readonly heard: unknown[];
  close(): Promise<unknown>;
}

export interface KindOfClient {
  readonly kind: string;
  readonly services: readonly Service[];
  client(host: string, port: number): Pick<ClientProxy, 'connect' | 'emit' | 'close'>;
  listen(topic: string): Promise<NestServer>;
}

export const CLIENTS: readonly KindOfClient[] = [
  {
    kind: 'ClientRedis',
    services: ['redis'],
    client: (host, port) => new ClientRedis({ host, port, retryAttempts: 1_000, retryDelay: 100 }),
    listen: async (topic) => {
      const [heard, redis] = [[] as unknown[], new Redis(requiredUrl('redis'))];
      redis.on('message', (_, text) => heard.push((JSON.parse(text) as { data: unknown }).data));
      await redis.subscribe(topic);
      return { address: requiredUrl('redis'), heard, close: () => redis.quit() };
    },
  },
  {
    kind: 'ClientMqtt',
    services: ['mqtt'],
    client: (host, port) => new ClientMqtt({ url: `mqtt://${host}:${port}` }),
    listen: async (topic) => {
      const [heard, mqtt] = [[] as unknown[], await connectAsync(requiredUrl('mqtt'))];
      mqtt.on('message', (_, bytes) => heard.push((JSON.parse(bytes.toString()) as { data: unknown }).data));
      await mqtt.subscribeAsync(topic);
      return { address: requiredUrl('mqtt'), heard, close: () => mqtt.endAsync() };
    },
  },
  {
    kind: 'ClientNats',
    services: ['nats'],
    client: (host, port) => new ClientNats({ servers: `nats://${host}:${port}` }),
    listen: async (topic) => {
      const [heard, nats] = [[] as unknown[], await connect({ servers: requiredUrl('nats') })];
      const callback = (_: unknown, message: { json<T>(): T }): void =>
        void heard.push(message.json<{ data: unknown }>().data);
      nats.subscribe(topic, { callback });
      await nats.flush();
      return { address: requiredUrl('nats'), heard, close: () => nats.close() };
    },
  },
];
