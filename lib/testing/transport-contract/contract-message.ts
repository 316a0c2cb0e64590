import { randomBytes } from 'node:crypto';
import { encodeHeaders } from '../../message/headers.js';
import { OutboxMessage, type MessageHeaders, type MessageOptions } from '../../outbox-message.js';

export interface ContractMessageFields {
  /** Default: a new one. */
  id?: string;
  topic: string;
  key?: string | null;
  payload?: string | Uint8Array | null;
  headers?: MessageHeaders;
  options?: MessageOptions;
  type?: string;
  version?: number;
  contentType?: string;
  attempts?: number;
  createdAt?: Date;
}

let sequence = 0;

/** A message as a relay would hand it to a transport, without a database. Ids and sequence numbers grow. */
export function contractMessage(fields: ContractMessageFields): OutboxMessage {
  const { payload = '{}', createdAt = new Date(), options } = fields;
  sequence += 1;
  return new OutboxMessage({
    bucket: 0,
    seq: String(sequence),
    id: fields.id ?? uuidv7(createdAt.getTime()),
    topic: fields.topic,
    key: fields.key ?? null,
    type: fields.type ?? 'contract.tested',
    version: fields.version ?? 1,
    contentType: fields.contentType ?? 'application/json',
    headersJson: fields.headers === undefined ? null : encodeHeaders(fields.headers),
    optionsJson: options === undefined ? null : JSON.stringify(options),
    body: payload === null || typeof payload === 'string' ? payload : Buffer.from(payload),
    createdText: `${createdAt.toISOString().slice(0, 23).replace('T', ' ')}+00`,
    attempts: fields.attempts ?? 0,
    parkedId: null,
    parkedState: null,
  });
}

/** The counter in front of the random part keeps ids of one millisecond in order. */
function uuidv7(time: number): string {
  const hex = time.toString(16).padStart(12, '0');
  const counter = (sequence & 0xfff).toString(16).padStart(3, '0');
  const random = randomBytes(8);
  random[0] = (random[0]! & 0x3f) | 0x80;
  const tail = random.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7${counter}-${tail.slice(0, 4)}-${tail.slice(4)}`;
}
