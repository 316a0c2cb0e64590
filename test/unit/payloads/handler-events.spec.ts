import { OutboxEvent, type PayloadDeserializer } from '../../../lib/index.js';
import { eventMetadata, type EventClass } from '../../../lib/enqueue/events/event-metadata.js';
import { jsonSerializer } from '../../../lib/message/json-serializer.js';
import { bindHandler } from '../../../lib/nest/handlers.js';
import { contractMessage, type ContractMessageFields } from '../../support/publish.js';

@OutboxEvent({ type: 'order.paid' })
class OrderPaid {
  constructor(readonly paid: number) {}
  isPaid(): boolean {
    return this.paid > 0;
  }
  get rest(): number {
    if (this.paid === undefined) throw new Error('asked of the class');
    return 10 - this.paid;
  }
}
@OutboxEvent<OrderMoved>({
  type: 'order.moved',
  revive: async (payload) => new OrderMoved(`revived ${(payload as OrderMoved).to}`),
})
class OrderMoved {
  constructor(readonly to: string) {}
}

/** What a handler of the class gets. */
async function received(
  eventClass: object,
  message: Partial<ContractMessageFields>,
  readers: readonly PayloadDeserializer[] = [jsonSerializer],
): Promise<unknown> {
  let event: unknown;
  const found = {
    ...{ name: 'Mailer.send', module: 'Mail', id: 'mailer', stem: undefined, type: 'order', version: undefined },
    eventClass: eventClass as EventClass,
    metadata: eventMetadata(eventClass as EventClass),
    call: (one: unknown) => void (event = one),
  };
  const signal = new AbortController().signal;
  await bindHandler(found, readers).call(contractMessage({ topic: 'orders', ...message }), { signal });
  return event;
}

describe('the event that a handler gets', () => {
  it('J9: keeps the methods of its class, whatever the payload’s members are called', async () => {
    const payload = '{"paid":0,"isPaid":"yes","toString":1,"constructor":{},"rest":5,"other":true}';
    const event = (await received(OrderPaid, { payload })) as OrderPaid;
    expect(event).toBeInstanceOf(OrderPaid);
    expect(event.isPaid()).toBe(false);
    expect(String(event)).toBe('[object Object]');
    expect(event.constructor).toBe(OrderPaid);
    expect(Object.keys(event)).toEqual(['paid', 'rest', 'other']);
  });

  it('K4: waits for deserialize and revive', async () => {
    const later = { ...jsonSerializer, deserialize: async (bytes: Uint8Array) => jsonSerializer.deserialize(bytes) };
    expect(await received(OrderMoved, { payload: '{"to":"a"}' }, [later])).toEqual(new OrderMoved('revived a'));
    expect(await received(OrderPaid, { payload: '{"paid":1}' }, [later])).toEqual(new OrderPaid(1));
  });

  const csv: PayloadDeserializer = {
    contentType: 'text/csv',
    deserialize(bytes) {
      const text = Buffer.from(bytes).toString();
      if (!/^\d+$/.test(text)) throw new Error('no number');
      return { paid: Number(text) };
    },
  };
  it.each<[string, string | null, unknown]>([
    ['application/json', '{"paid":1}', new OrderPaid(1)],
    ['application/vnd.shop+json', '{"paid":1}', new OrderPaid(1)],
    ['text/csv', '2', new OrderPaid(2)],
    ['Text/CSV; charset=utf-8', '3', new OrderPaid(3)],
    ['application/x-unknown', 'd,4', Buffer.from('d,4')],
    ['text/csv', null, null],
  ])('is read by the content type %s; what nobody reads stays bytes: %s', async (contentType, payload, expected) => {
    const event = await received(OrderPaid, { contentType, payload }, [jsonSerializer, csv]);
    expect(event).toEqual(expected);
    expect(event instanceof OrderPaid).toBe(expected instanceof OrderPaid);
  });

  it('is none where the payload cannot be read: its message fails', async () => {
    const broken = { contentType: 'text/csv', payload: 'broken' };
    await expect(received(OrderPaid, broken, [jsonSerializer, csv])).rejects.toThrow('no number');
  });
});
