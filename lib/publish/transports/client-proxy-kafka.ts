import { connect as connectSocket, isIP, type Socket } from 'node:net';
import { connect as connectTls, type ConnectionOptions } from 'node:tls';
import type { OutboxMessage } from '../../message.js';
import { OutboxError } from '../../outbox.errors.js';
import { type Blame, PUBLISHED, type PublishResult } from '../transport.js';
import type { ClientOptions, NestClient } from './client-proxy-kind.js';
import { ClientLink, failed, isSerialisation } from './client-proxy-link.js';

/** The protected half of ClientKafka. */
interface KafkaClient extends NestClient {
  initialized?: unknown;
  _producer?: unknown;
  _consumer?: unknown;
  client?: unknown;
}
interface SocketRequest {
  host: string;
  port: number;
  ssl?: ConnectionOptions;
  onConnect: () => void;
}
type SocketFactory = (request: SocketRequest) => Socket;

/** Answers of the broker that concern this record only. */
const MESSAGE_ERRORS = new Set([
  'MESSAGE_TOO_LARGE',
  'RECORD_LIST_TOO_LARGE',
  'INVALID_RECORD',
  'INVALID_TIMESTAMP',
  'INVALID_TOPIC_EXCEPTION',
  'UNKNOWN_TOPIC_OR_PARTITION',
  'TOPIC_AUTHORIZATION_FAILED',
]);
/** Well inside the publish timeout (3 s); kafkajs' own default for an idempotent producer never ends. */
const RETRY = { initialRetryTime: 100, retries: 5 };

/**
 * A kafkajs producer that was disconnected goes on retrying: it connects again and sends. Its sockets therefore come
 * from a gate, which is shut at the death of the link; a new life has a new producer (and producer id).
 */
export class KafkaLink extends ClientLink {
  readonly sockets = new Set<Socket>();
  declare readonly client: KafkaClient;

  override async connect(): Promise<unknown> {
    // Connected by the application, before the gate was there.
    if (this.client.initialized) await this.client.close();
    const options = this.client.options ?? {};
    this.client.options = {
      ...options,
      client: { ...options.client, socketFactory: this.gate(options) },
      producer: { ...(options.client?.retry === undefined && { retry: RETRY }), ...options.producer },
    };
    return this.client.connect();
  }

  /** @internal */
  gate(options: ClientOptions): SocketFactory {
    const given = options.client?.socketFactory as (SocketFactory & { [OPEN]?: SocketFactory }) | undefined;
    const open = given?.[OPEN] ?? given ?? openSocket;
    const gated = (request: SocketRequest): Socket => {
      if (this.dead) throw new OutboxError('TRANSPORT_UNAVAILABLE', 'The connection was given up.');
      const socket = open(request);
      this.sockets.add(socket);
      socket.once('close', () => this.sockets.delete(socket));
      return socket;
    };
    return Object.assign(gated, { [OPEN]: open });
  }

  override async destroy(reason: Error): Promise<void> {
    // With the error: kafkajs rejects what is pending on 'error' and 'end', not on 'close'.
    for (const socket of this.sockets) socket.destroy(reason);
    const { client } = this;
    const [producer, consumer] = [client._producer, client._consumer] as { disconnect(): Promise<void> }[];
    // Nest's close() would wait for a silent broker and then clear what a newer life has put there.
    client._producer = client._consumer = client.initialized = client.client = null;
    await Promise.allSettled([producer?.disconnect(), consumer?.disconnect()]);
  }

  override blame(error: unknown): Blame {
    return isSerialisation(error) || chain(error).some((one) => MESSAGE_ERRORS.has(one.type ?? ''))
      ? 'message'
      : 'transport';
  }
  /** After a lost reply kafkajs resolves the next send with the previous offset: its producer is thrown away. */
  override endsWith(): boolean {
    return true;
  }
  /** kafkajs resolves a send to a partition that does not exist with an empty answer. */
  override verdict(_message: OutboxMessage, answer: unknown): PublishResult {
    if (this.client.options?.send?.acks === 0) return PUBLISHED;
    const acknowledged = Array.isArray(answer) && answer.length === 1 && (answer[0] as Answer).errorCode === 0;
    return acknowledged ? PUBLISHED : failed('message', new OutboxError('PUBLISH_REJECTED', NO_ANSWER));
  }
}

const OPEN = Symbol('open');
const NO_ANSWER = 'Kafka answered for no partition: the partition of the message does not exist.';
interface Answer {
  readonly errorCode?: number;
}

function chain(error: unknown): { type?: string }[] {
  const found: { type?: string }[] = [];
  for (let one = error; one instanceof Error && found.length < 5; one = one.cause) found.push(one as { type?: string });
  return found;
}

/** What kafkajs does without a factory. */
function openSocket({ host, port, ssl, onConnect }: SocketRequest): Socket {
  const socket = ssl
    ? connectTls({ host, port, ...(isIP(host) === 0 && { servername: host }), ...ssl }, onConnect)
    : connectSocket({ host, port }, onConnect);
  return socket.setKeepAlive(true, 60_000);
}
