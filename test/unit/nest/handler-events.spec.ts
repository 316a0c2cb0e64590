import { jsonSerializer } from '../../../lib/message/json-serializer.js';
import type { FoundHandler } from '../../../lib/nest/handler-checks.js';
import { bindHandler } from '../../../lib/nest/handlers.js';
import { contractMessage } from '../../support/publish.js';

class OrderPlaced {
  constructor(readonly paid: number) {}
  isPaid(): boolean {
    return this.paid > 0;
  }
  get rest(): number {
    if (this.paid === undefined) throw new Error('asked of the class');
    return 10 - this.paid;
  }
}

describe('J9: the event that a handler gets', () => {
  const received = async (payload: string): Promise<OrderPlaced> => {
    let event: unknown;
    const found: FoundHandler = {
      name: 'Mailer.send',
      module: 'Mail',
      id: 'mailer',
      stem: undefined,
      type: 'order.placed',
      version: undefined,
      eventClass: OrderPlaced as unknown as NonNullable<FoundHandler['eventClass']>,
      metadata: undefined,
      call: (one) => void (event = one),
    };
    const message = contractMessage({ topic: 'orders', payload });
    await bindHandler(found, [jsonSerializer]).call(message, { signal: new AbortController().signal });
    return event as OrderPlaced;
  };

  it('keeps the methods of its class, whatever the payload’s members are called', async () => {
    const event = await received('{"paid":0,"isPaid":"yes","toString":1,"constructor":{},"rest":5,"other":true}');
    expect(event).toBeInstanceOf(OrderPlaced);
    expect(event.isPaid()).toBe(false);
    expect(String(event)).toBe('[object Object]');
    expect(event.constructor).toBe(OrderPlaced);
    expect(Object.keys(event)).toEqual(['paid', 'rest', 'other']);
  });
});
