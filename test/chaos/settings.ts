/** What the harness tells the processes that it starts. */
export type StoreName = 'postgres' | 'mariadb' | 'mysql';
export type LayerName = 'typeorm' | 'prisma' | 'drizzle';
/** Of the outbox: `key` promises nothing of transactions that overlap, `strict` the order of their commits. */
export type Ordering = 'key' | 'strict';

export interface ProcessSettings {
  readonly store: StoreName;
  readonly layer: LayerName;
  readonly broker: BrokerName;
  readonly ordering: Ordering;
  readonly seed: number;
  /** `process.hrtime.bigint()` of the harness at its start; the clock is the machine's, so all processes share it. */
  readonly origin: string;
  /** The file to which this process appends its part of the history. */
  readonly part: string;
  readonly databaseUrl: string;
  /** `amqp://…` and the like, or `host:port` of Kafka. */
  readonly brokerUrl: string;
}
export interface RelaySettings extends ProcessSettings {
  /** It never looks at everything: what only that look would find never comes. */
  readonly noScan: boolean;
  /** Number of this life of a relay, from 1. */
  readonly run: number;
  /** Host and port of the proxy that all connections to Kafka go through. */
  readonly brokerPort: number;
  /** Past a pooler. */
  readonly listenUrl?: string | undefined;
}
export interface WriterSettings extends ProcessSettings {
  /** What nobody may see but in the messages themselves. */
  readonly secrets: { readonly payload: string; readonly header: string };
  /** Number of this life of a writer, from 1. */
  readonly run: number;
  readonly createTables: boolean;
  /** Transactions that are open at the same time, at most. */
  readonly concurrency: number;
}
export interface ConsumerSettings extends ProcessSettings {
  /** Each delivery has an effect in the database, by the inbox. */
  readonly inbox: boolean;
}

/** From the harness to a process. */
export type Order =
  | { readonly kind: 'rate'; readonly messagesPerSecond: number }
  | { readonly kind: 'clock'; readonly shift: number }
  | { readonly kind: 'block'; readonly ms: number }
  | { readonly kind: 'release' }
  /** The next transaction stays open for so long, with its messages in it. */
  | { readonly kind: 'hold'; readonly ms: number }
  /** The topic of this transport that comes and goes: reads it to its end, and leaves it; or reads it again, from its beginning. */
  | { readonly kind: 'leave' | 'join'; readonly transport: number }
  | { readonly kind: 'flush' };
/** From a process to the harness. */
export interface Report {
  readonly kind: 'ready' | 'count' | 'flushed' | 'left' | 'joined' | 'owner';
  readonly count?: number;
  /** The name under which a relay holds leases from now on. */
  readonly owner?: string;
}

/** The relay under test: the shortest lease there is, so that ownership changes often. Milliseconds. */
export const RELAY = {
  relays: 4,
  lease: 10_000,
  pollInterval: 500,
  publishTimeout: 2_000,
  shutdownTimeout: 4_000,
  batchSize: 200,
  batchesInFlight: 4,
  buckets: 32,
  /** Its own connections, one that listens, and the application's. */
  maxConnections: 4 + 1 + 2,
} as const;

export interface BrokerTraits {
  /**
   * To the broker, of one relay: one for each transport, or one for each of a Kafka transport's four producers. And one for each
   * transport over which it asks whether a destination that was missing is there.
   */
  readonly connections: number;
  /** Topics of one transport are read in the order in which they came, across topics. */
  readonly isOneQueue: boolean;
  /** What a topic took goes away with it, so that it is read out before. */
  readonly isReadOut: boolean;
}
/** Each has a file of its own in `servers`, and `consume-…` and `transport-…` in `processes`. */
export const BROKERS = {
  rabbitmq: { connections: 4, isOneQueue: true, isReadOut: false },
  kafka: { connections: 10, isOneQueue: false, isReadOut: true },
  nats: { connections: 4, isOneQueue: true, isReadOut: false },
  redis: { connections: 4, isOneQueue: false, isReadOut: false },
  sqs: { connections: 40, isOneQueue: false, isReadOut: true },
  mqtt: { connections: 2, isOneQueue: true, isReadOut: true },
};
export type BrokerName = keyof typeof BROKERS;
export const traitsOf = (broker: BrokerName): BrokerTraits => BROKERS[broker];

export const TRANSPORTS = ['alpha', 'beta'] as const;
/** A topic of each transport that comes and goes; `orders` is always there, and what goes to `nowhere` is at fault itself. */
export const SEASONAL = 'seasonal';

/** Microseconds since the harness started, by the one clock that all processes of this machine share. */
export function clockSince(origin: string): () => number {
  const start = BigInt(origin);
  return () => Number((process.hrtime.bigint() - start) / 1_000n);
}

export function readSettings<T extends ProcessSettings>(): T {
  return JSON.parse(process.env['CHAOS'] as string) as T;
}

export function tell(report: Report): void {
  if (process.connected) process.send?.(report);
}
