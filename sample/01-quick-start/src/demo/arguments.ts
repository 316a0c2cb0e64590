import { parseArgs } from 'node:util';

export interface Arguments {
  /** Generated, instead of those of orders.jsonl. */
  readonly orders: number | undefined;
  readonly kafka: string | undefined;
  readonly rabbitmq: string | undefined;
  readonly serve: boolean;
}

export const USAGE = `npm start                                   orders.jsonl, no broker
npm start -- --orders 2000                  generated orders
npm start -- --kafka 127.0.0.1:9092         through Kafka, read back by a consumer of its own
npm start -- --rabbitmq amqp://localhost    through RabbitMQ, likewise
npm start -- --serve                        keeps the service up, to play with curl
DATABASE_URL=postgres://…                   instead of the embedded PostgreSQL`;

export function readArguments(argv: readonly string[]): Arguments {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      orders: { type: 'string' },
      kafka: { type: 'string' },
      rabbitmq: { type: 'string' },
      serve: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) throw new Error(USAGE);
  const orders = values.orders === undefined ? undefined : Number(values.orders);
  if (orders !== undefined && !(Number.isInteger(orders) && orders >= 1 && orders <= 100_000)) {
    throw new Error(`--orders is ${values.orders}; must be a whole number from 1 to 100000`);
  }
  if (values.kafka !== undefined && values.rabbitmq !== undefined) throw new Error('--kafka or --rabbitmq, not both');
  return { orders, kafka: values.kafka?.replace(/^kafka:\/\//, ''), rabbitmq: values.rabbitmq, serve: values.serve };
}
