import type { Unroutable } from '../amqp/blame.js';
import { nameOf } from '../amqp/names.js';
import type { ConfirmWindow } from './window.js';

/** What amqplib gives with `return`. */
export interface Returned {
  readonly fields: { readonly exchange: string; readonly routingKey: string; readonly replyCode: number };
  readonly properties: { readonly messageId: string };
}

/** Messages that came back, by their ids: the ack follows the return, and is of one that was sent before it. */
export class Returns {
  /** `before`: the tag that was next when it came back */
  private readonly returned = new Map<string, { readonly trouble: Unroutable; readonly before: number }>();

  constructor(readonly window: ConfirmWindow) {}

  add({ fields, properties }: Returned): void {
    const { exchange, routingKey, replyCode } = fields;
    const destination = nameOf(exchange, routingKey);
    const trouble: Unroutable = { kind: 'unroutable', exchange, routingKey, replyCode, destination };
    this.returned.delete(properties.messageId); // the last comes last
    this.returned.set(properties.messageId, { trouble, before: this.window.next });
  }

  /** Plain SQL can give two messages one id: of those that were out when it came back none counts as stored. */
  troubleOf(id: string, tag: number): Unroutable | undefined {
    if (this.returned.size === 0) return undefined;
    for (const [past, { before }] of this.returned) {
      if (!this.window.isPast(before)) break;
      this.returned.delete(past);
    }
    const found = this.returned.get(id);
    return found === undefined || tag >= found.before ? undefined : found.trouble;
  }

  clear(): void {
    this.returned.clear();
  }
}
