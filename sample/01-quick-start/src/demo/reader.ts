import type { Arguments } from './arguments.js';
import { startKafkaReader } from './kafka-reader.js';
import { LedgerReader } from './ledger-reader.js';
import { startRabbitMqReader } from './rabbitmq-reader.js';
import type { Reader } from './received.js';

/** Makes topic, queue or file too: they exist as long as the reader. */
export function startReader({ kafka, rabbitmq }: Arguments, prefix: string, ledger: string): Promise<Reader> {
  if (kafka !== undefined) return startKafkaReader(kafka, prefix);
  if (rabbitmq !== undefined) return startRabbitMqReader(rabbitmq, prefix);
  return LedgerReader.start(ledger);
}
