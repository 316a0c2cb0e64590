/** What `init` writes for a transport. */
export interface TransportText {
  /** Where its function comes from. */
  readonly specifier: string;
  readonly name: string;
  /** The client that the application needs beside the package. */
  readonly client?: string;
  /** @param app the application's name */
  code(app: string): string;
}

export const EXAMPLE_TOPIC = 'outbox-example';

export const TRANSPORTS: Readonly<Record<string, TransportText>> = {
  'in-process': { specifier: 'nestjs-outbox', name: 'inProcess', code: () => 'inProcess()' },
  rabbitmq: {
    specifier: 'nestjs-outbox/rabbitmq',
    name: 'rabbitmq',
    client: 'amqplib',
    code: () => `rabbitmq({
  url: process.env['RABBITMQ_URL'] ?? 'amqp://localhost',
  exchange: '${EXAMPLE_TOPIC}',
  topology: {
    assertExchange: [{ name: '${EXAMPLE_TOPIC}', type: 'topic' }],
    assertQueue: [{ name: '${EXAMPLE_TOPIC}' }],
    bind: [{ queue: '${EXAMPLE_TOPIC}', exchange: '${EXAMPLE_TOPIC}', routingKey: '${EXAMPLE_TOPIC}' }],
  },
})`,
  },
  kafka: {
    specifier: 'nestjs-outbox/kafka',
    name: 'kafka',
    client: 'kafkajs',
    code: (app) =>
      `kafka({ client: { clientId: '${app.replaceAll(/[^\w.-]/g, '-')}', brokers: [process.env['KAFKA_BROKER'] ?? 'localhost:9092'] } })`,
  },
};

/** The call for the `imports` of the root module. */
export function moduleCall(transport: TransportText, app: string): string {
  const [first, ...rest] = transport.code(app).split('\n') as [string, ...string[]];
  if (rest.length === 0 && first.length < 40) return `OutboxModule.forRoot({ transports: { default: ${first} } })`;
  const lines = [first, ...rest.map((line) => `    ${line}`)].join('\n');
  return `OutboxModule.forRoot({\n  transports: {\n    default: ${lines},\n  },\n})`;
}
