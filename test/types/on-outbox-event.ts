/** Compiled, never run: each `@ts-expect-error` is a mistake that must not compile. */
import { type OutboxMessage, OnOutboxEvent } from '../../lib/index.js';
import { OrderPlaced, Private } from './enqueue.js';

export class Handlers {
  @OnOutboxEvent(OrderPlaced)
  async both(event: OrderPlaced, message: OutboxMessage): Promise<string> {
    return event.orderId + message.id;
  }
  @OnOutboxEvent(OrderPlaced, { id: 'stable' })
  none(): void {}
  @OnOutboxEvent(Private)
  hidden(event: Private): void {
    void event;
  }
  @OnOutboxEvent({ type: 'plain', version: 2 })
  plain(event: { n: number }): void {
    void event;
  }
  // @ts-expect-error another class's event
  @OnOutboxEvent(OrderPlaced)
  wrong(event: { nope: string }): void {
    void event;
  }
  // @ts-expect-error a third parameter
  @OnOutboxEvent(OrderPlaced)
  tooMany(_event: OrderPlaced, _message: OutboxMessage, _more: string): void {}
  // @ts-expect-error no type
  @OnOutboxEvent({ version: 2 })
  untyped(): void {}
}
