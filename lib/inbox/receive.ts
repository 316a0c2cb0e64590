import type { ReceivedMessage } from '../consumer/index.js';
import type { OutboxService } from '../enqueue/outbox.service.js';
import type { EnqueueOptions, PlainMessage } from '../enqueue/options.js';
import { parseUuidV7 } from '../message/uuid-v7.js';
import { KEY_HEADER, TOMBSTONE_HEADER } from '../transports/amqp/names.js';
import { typeName } from '../options/text-checks.js';
import { CONTENT_ENCODING, gunzip } from '../payloads/gzip.js';
import { STANDARD_HEADERS } from '../transports/envelope.js';
import { OutboxConfigurationError, OutboxDuplicateMessageError } from '../outbox.errors.js';

export interface ReceiveOptions extends Pick<EnqueueOptions, 'tx'> {
  /** Names a transport `inProcess()` of the outbox. Default: the only one. */
  readonly transport?: string;
}
export type ReceiveOutcome = 'stored' | 'duplicate';

/** Writes what a broker brought as a message of the application's own outbox, with its id, for its `@OnOutboxEvent` handlers. */
export async function receiveInto(
  outbox: OutboxService | undefined,
  message: ReceivedMessage,
  { tx, transport }: ReceiveOptions,
): Promise<ReceiveOutcome> {
  if (outbox === undefined)
    throw invalid('there is no outbox to keep the message in', 'Import OutboxModule with a transport inProcess().');
  const stored = messageOf(message, transport ?? localTransport(outbox), outbox);
  const report = { report: true } as const;
  try {
    const written =
      tx === undefined ? outbox.enqueueOutsideTransaction(stored, report) : outbox.enqueue(stored, { tx, ...report });
    return (await written).duplicate ? 'duplicate' : 'stored';
  } catch (error) {
    if (error instanceof OutboxDuplicateMessageError) return 'duplicate'; // by its id
    throw error;
  }
}

function messageOf(message: ReceivedMessage, transport: string, { runtime }: OutboxService): PlainMessage {
  const { id, type, version, key, contentType, contentEncoding, headers } = Object(message) as ReceivedMessage;
  if (typeof id !== 'string' || headers === undefined)
    throw invalid(`${typeName(message)} is no message`, 'Give what @Received() gives, or receivedMessage().');
  const own = parseUuidV7(id);
  // Stored as it was before: its handlers need no serializer for it.
  const isGzip = contentEncoding === 'gzip';
  const payload = isGzip ? gunzip(message.bytes!, runtime.options.maxPayloadBytes) : bytesOf(message);
  const notOwn = isGzip ? new Set([...NOT_OWN, CONTENT_ENCODING]) : NOT_OWN;
  const kept = Object.entries(headers).filter(
    ([name, value]) => !notOwn.has(name) && !ATTRIBUTE.test(name) && isHeader(value),
  );
  return {
    ...(own === undefined ? { dedupKey: `received:${id}` } : { id: own }),
    ...{ type, version, key, contentType, transport, payload },
    headers: Object.fromEntries(kept) as NonNullable<PlainMessage['headers']>,
  };
}

/** Where Nest decoded it, it is encoded again. */
function bytesOf(message: ReceivedMessage): Buffer | null {
  try {
    return message.bytes;
  } catch {
    const { payload, contentType } = message;
    return Buffer.from(/^text\//i.test(contentType) ? String(payload) : JSON.stringify(payload));
  }
}

function localTransport({ runtime }: OutboxService): string {
  const local = [...runtime.options.transports].filter(([, { kind }]) => kind === 'in-process').map(([name]) => name);
  if (local.length === 1) return local[0] as string;
  throw invalid(
    `the outbox has ${local.length === 0 ? 'no transport' : 'several transports'} inProcess()`,
    'Name the one with the handlers: inbox.receive(message, { transport }).',
  );
}

const NOT_OWN: ReadonlySet<string> = new Set([...Object.values(STANDARD_HEADERS), KEY_HEADER, TOMBSTONE_HEADER]);
/** Of a CloudEvent: in Kafka, and in AMQP. */
const ATTRIBUTE = /^(ce_|cloudEvents[:_])/;
const isOne = (value: unknown): boolean => typeof value === 'string' || Buffer.isBuffer(value);
const isHeader = (value: unknown): boolean =>
  isOne(value) || (Array.isArray(value) && value.length > 0 && value.every(isOne));

const invalid = (problem: string, hint: string): Error =>
  new OutboxConfigurationError('INVALID_OPTIONS', `inbox.receive: ${problem}.`, { hint });
