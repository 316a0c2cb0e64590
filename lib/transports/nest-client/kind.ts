/**
 * Nest's clients are told by class names along the prototype chain, so that nothing of `@nestjs/microservices` is loaded and a
 * second copy of it does no harm.
 */
export type ClientKind = 'kafka' | 'rmq' | 'redis' | 'nats' | 'mqtt' | 'tcp' | 'grpc' | 'custom';

/** The part of a Nest client that is used here. */
export interface NestClient {
  emit(pattern: unknown, data: unknown): Emitted;
  connect(): Promise<unknown>;
  close(): unknown;
  /** What extensions of Nest may use of a client, and this package of one of RabbitMQ or Kafka. */
  readonly options?: object;
  readonly serializer: { serialize(packet: unknown, options?: unknown): unknown };
  normalizePattern(pattern: unknown): unknown;
  /** Since Nest 12. */
  createPacket?(pattern: unknown, data: unknown): Packet;
}
export interface Packet {
  readonly pattern: unknown;
  readonly data: unknown;
}
export interface Emitted {
  subscribe(observer: { next(value: unknown): void; error(error: unknown): void; complete(): void }): unknown;
}

const KINDS: ReadonlyMap<string, ClientKind> = new Map([
  ['ClientKafka', 'kafka'],
  ['ClientRMQ', 'rmq'],
  ['ClientRedis', 'redis'],
  ['ClientNats', 'nats'],
  ['ClientMqtt', 'mqtt'],
  ['ClientTCP', 'tcp'],
  ['ClientGrpcProxy', 'grpc'],
]);

export function isNestClient(value: unknown): value is NestClient {
  const client = value as Partial<NestClient> | null | undefined;
  return typeof client === 'object' && client !== null && typeof client.emit === 'function' && 'connect' in client;
}

/** @returns also the class of Nest that says so, as a prototype */
export function kindOf(client: object): { readonly kind: ClientKind; readonly base: object } {
  for (let base = Object.getPrototypeOf(client) as object | null; base !== null; base = Object.getPrototypeOf(base)) {
    const kind = KINDS.get(base.constructor?.name);
    if (kind !== undefined) return { kind, base };
  }
  return { kind: 'custom', base: client };
}
