import { encodeHeaders } from '../../message/headers.js';
import { uuidV7 } from '../../message/uuid-v7.js';
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
    id: fields.id ?? uuidV7(),
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
