import { Injectable } from '@nestjs/common';
import { OutboxTransport, PUBLISHED, type MessageHeaders, type OutboxMessage, type PublishResult } from 'nestjs-outbox';
import { decode } from './registry.js';
import { SCHEMA_ID } from './schema-serializer.js';

/** Stands for a broker: it has headers and bytes, and knows no schema. */
@Injectable()
export class Wire extends OutboxTransport {
  readonly receipt = 'broker';
  readonly records: { readonly headers: MessageHeaders; readonly bytes: Uint8Array }[] = [];

  async publish(batch: readonly OutboxMessage[]): Promise<PublishResult[]> {
    for (const { headers, payload } of batch) this.records.push({ headers, bytes: payload ?? Buffer.alloc(0) });
    return batch.map(() => PUBLISHED);
  }
}

/** Billing, in another process perhaps: it has the registry, and nothing of the shop. */
export function receive({ headers, bytes }: Wire['records'][number]): unknown {
  return decode(headers[SCHEMA_ID], bytes);
}
