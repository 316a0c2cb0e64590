import { setTimeout as pause } from 'node:timers/promises';
import { ClientMqtt, ClientNats, type ClientProxy, ClientRedis, ClientTCP, ServerTCP } from '@nestjs/microservices';
import { connect } from '@nats-io/transport-node';
import { Redis } from 'ioredis';
import { connectAsync } from 'mqtt';
import { requiredUrl, type Service } from './services.js';
import { until } from './until.js';

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
  /** Whether an event makes it say anything. */
  readonly answers: boolean;
  listen(topic: string): Promise<NestServer>;
}

export const CLIENTS: readonly KindOfClient[] = [
  {
    kind: 'ClientRedis',
    services: ['redis'],
    answers: true,
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
    answers: true,
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
    answers: true,
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
  {
    kind: 'ClientTCP',
    services: [],
    answers: false,
    client: (host, port) => new ClientTCP({ host, port }),
    listen: async (topic) => {
      const [heard, server] = [[] as unknown[], new ServerTCP({ host: '127.0.0.1', port: 0 })];
      server.addHandler(topic, async (data: unknown) => void heard.push(data), true);
      await new Promise<void>((resolve) => server.listen(() => resolve()));
      const { port } = server.unwrap<{ address(): { port: number } }>().address() as { port: number };
      return { address: `tcp://127.0.0.1:${port}`, heard, close: async () => server.close() };
    },
  },
];

/** What arrives arrives within moments: waits until nothing has come for `ms`. */
export async function quiet({ heard }: NestServer, ms = 300): Promise<void> {
  let before = -1;
  await until(async () => {
    if (heard.length === before) return true;
    before = heard.length;
    await pause(ms);
    return false;
  });
}
