import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { ISocketFactory, ISocketFactoryArgs, Kafka, KafkaConfig, RetryOptions } from 'kafkajs';
import { OutboxConfigurationError } from '../../outbox.errors.js';
import { askBeforeWrites } from '../ask-before-writes.js';
import { cutSocket } from '../cut-socket.js';
import { loadPeer } from '../load-peer.js';
import { keepAnswers, type ProduceAnswers, type RequestSender } from './produce-response.js';
import { askAboutNoOthers, keepTopicsApart, type TopicNews, type TopicQuestion } from './metadata.js';
import { keepApart, keepTokensApart } from './providers.js';
import { restWhenIdle } from './rest.js';
import { Seeds } from './seeds.js';
import { leaveIfSilent } from './silence.js';

type KafkaModule = typeof import('kafkajs');

export async function loadKafkaJs(): Promise<KafkaModule> {
  const load = (): Promise<KafkaModule & { readonly default?: KafkaModule }> => import('kafkajs');
  const loaded = await loadPeer('The kafka() transport', 'kafkajs', load);
  return loaded.default ?? loaded;
}

/** Short and few: the publish deadline bounds them all, and a client that retries for minutes hides an outage. */
export const RETRY: RetryOptions = { initialRetryTime: 50, maxRetryTime: 1000, retries: 5 };

/** What a guard asks whoever sends through its sockets, and tells them. */
export interface GuardedUse extends Pick<TopicNews, 'isIdle' | 'isRefused'> {
  /**
   * Asked before every write: kafkajs goes on by itself, and in a process that stood still its answers and its own timers may
   * come before the timer of a deadline. Who says yes has killed this guard.
   */
  isTooLate(): boolean;
  /** Called with the milliseconds for which a broker will not listen. */
  onThrottle(ms: number): void;
}
const ALONE: GuardedUse = {
  isTooLate: () => false,
  isIdle: () => true,
  isRefused: () => false,
  onThrottle: () => undefined,
};

/**
 * Every socket of one producer, so that the producer can be ended for good: kafkajs' `disconnect()` waits for pending
 * requests, and a send that runs reconnects by itself. Once dead, nothing can be written and nothing connects again.
 */
export class SocketGuard {
  dead = false;
  /** Of all producers that are made from one configuration. */
  seeds = new Seeds();
  /** of the last server that took a connection and answered nothing */ private left: string | undefined;
  /** each with its server, of which nothing was heard yet */ private readonly unheard = new Map<Socket, string>();
  private readonly sockets = new Set<Socket>();
  /** What is wrong with topics, by the last answer about each. */
  readonly wrong = new Map<string, unknown>();
  /** Of the one producer that goes through this guard. */
  cluster: Cluster | undefined;
  /** To the send that is under way, or was last, where somebody asks for them. */
  answers: ProduceAnswers | undefined;
  /** Of the one producer; above 0, its transactional id was a producer's before. */
  epoch = 0;
  readonly use: GuardedUse;

  constructor(use: Partial<GuardedUse> = {}) {
    this.use = { ...ALONE, ...use };
  }

  wrap(factory: ISocketFactory): ISocketFactory {
    return (args) => {
      if (this.dead) throw ended();
      const socket = factory(args);
      this.sockets.add(socket);
      socket.once('close', () => this.sockets.delete(socket));
      askBeforeWrites(socket, () => !this.dead && !this.use.isTooLate());
      this.listen(socket, `${args.host}:${args.port}`);
      return socket;
    };
  }

  /** For people: which server said nothing. */
  get silence(): string | undefined {
    const [server] = this.unheard.values();
    return this.left ?? (server && `Kafka's server ${server} has not answered`);
  }

  private listen(socket: Socket, server: string): void {
    this.unheard.set(socket, server);
    const heard = (): unknown => this.unheard.delete(socket);
    leaveIfSilent(socket, server, {
      answered: () => {
        heard();
        this.left = undefined;
        this.seeds.answered(server);
      },
      silent: (text) => {
        heard();
        this.left = text;
        this.seeds.note(server);
      },
      closed: heard,
    });
  }

  /** Synchronous: after it returned no byte leaves this process, or waits in the kernel, through these sockets. */
  kill(): void {
    this.dead = true;
    if (this.cluster !== undefined) endRetries(this.cluster);
    for (const server of this.unheard.values()) this.seeds.note(server);
    // With an error, or kafkajs does not notice and keeps its timers until the request timeout.
    for (const socket of this.sockets) cutSocket(socket, ended());
  }
}

/** `retriable: false` makes kafkajs' retry loops stop at once. */
function ended(): Error {
  return Object.assign(new Error('This Kafka producer was ended.'), { retriable: false });
}

/** A Kafka object whose next producer's sockets are all in the guard. */
export type GuardedKafka = (guard: SocketGuard) => Kafka;

export function fromConfig({ Kafka }: KafkaModule, config: KafkaConfig): GuardedKafka {
  const silent = config.logLevel === undefined && config.logCreator === undefined;
  const seeds = new Seeds();
  return (guard) => {
    guard.seeds = seeds;
    const kafka = new Kafka({
      ...config,
      ...(silent ? { logLevel: 0, logCreator: () => () => undefined } : {}),
      retry: { ...RETRY, ...config.retry },
      socketFactory: guard.wrap(config.socketFactory ?? openSocket),
    });
    return withCluster(kafka, (cluster) => watchPools(cluster, guard, () => undefined)) ?? kafka;
  };
}

/** The producers are ours, the application's Kafka object and its other clients are not touched. */
export function fromInstance(kafka: Kafka): GuardedKafka {
  const seeds = new Seeds();
  const guarded = (guard: SocketGuard): Kafka | undefined =>
    withCluster(kafka, (cluster) => watchPools(cluster, guard, (connections) => guardSockets(connections, guard)));
  if (guarded(new SocketGuard()) === undefined) throw notUsable();
  return (guard) => {
    guard.seeds = seeds;
    return guarded(guard)!;
  };
}

function notUsable(): OutboxConfigurationError {
  return new OutboxConfigurationError('INVALID_OPTIONS', 'kafka(): this client is not a Kafka object of kafkajs 2.2.', {
    hint: 'Give its configuration instead: kafka({ client: { clientId, brokers } }).',
  });
}

/** kafkajs' own parts that are reached through a Kafka object; checked before use, as no version promises them. */
interface Cluster extends TopicQuestion {
  connect: () => Promise<void>;
  refreshMetadata: () => Promise<void>;
  readonly connectionPoolBuilder: { build: (destination?: object) => Promise<ConnectionPool> };
}
interface ConnectionPool extends RequestSender {
  readonly host: string;
  readonly port: number;
  readonly pool: { socketFactory: ISocketFactory }[];
}

/** A child of `kafka` that shows every cluster it creates; `undefined` when kafkajs is built another way. */
function withCluster(kafka: Kafka, onCluster: (cluster: Cluster) => void): Kafka | undefined {
  const symbol = Object.getOwnPropertySymbols(kafka).find((s) => s.description === 'private:Kafka:createCluster');
  const create = symbol && (kafka as unknown as Record<symbol, unknown>)[symbol];
  if (symbol === undefined || typeof create !== 'function') return undefined;
  const createCluster = (options: object): Cluster => {
    const cluster = (create as (o: object) => Cluster).call(kafka, options);
    onCluster(cluster);
    return cluster;
  };
  return Object.create(kafka, { [symbol]: { value: createCluster } }) as Kafka;
}

/** Every pool of connections that the cluster makes, one for each broker. */
function watchPools(cluster: Cluster, guard: SocketGuard, onPool: (pool: ConnectionPool) => void): void {
  const { connectionPoolBuilder } = cluster;
  const build = connectionPoolBuilder?.build;
  if (typeof build !== 'function') throw notUsable();
  guard.cluster = cluster;
  const nextSeed = guard.seeds.inOrder(() => build());
  connectionPoolBuilder.build = async (destination) => {
    const pool = await keepApart(() => (destination === undefined ? nextSeed() : build(destination)));
    onPool(pool);
    pool.pool.forEach(keepTokensApart);
    pool.pool.forEach(restWhenIdle);
    keepAnswers(pool, guard);
    askAboutNoOthers(pool);
    keepTopicsApart(pool, { ...guard.use, wrong: guard.wrong });
    return pool;
  };
}

function guardSockets({ pool }: ConnectionPool, guard: SocketGuard): void {
  if (guard.dead) throw ended();
  for (const connection of pool) connection.socketFactory = guard.wrap(connection.socketFactory);
}

/** Ends kafkajs' retry loops early; without it they would fail at the guard again and again for some seconds. */
function endRetries(cluster: Cluster): void {
  cluster.connect = cluster.refreshMetadata = cluster.addMultipleTargetTopics = () => Promise.reject(ended());
}

/** As kafkajs opens them, but without Nagle's algorithm: one request is one write. */
function openSocket({ host, port, ssl, onConnect }: ISocketFactoryArgs): Socket {
  const socket = ssl
    ? connectTls({ host, port, ...(isIP(host) ? {} : { servername: host }), ...(ssl as object) }, onConnect)
    : connectTcp({ host, port }, onConnect);
  socket.setKeepAlive(true, 60_000);
  socket.setNoDelay(true);
  return socket;
}
