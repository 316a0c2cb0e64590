import { IsArray, IsPositive, IsString, ValidateNested, validateSync } from 'class-validator';
import { OutboxEvent } from '../../../lib/index.js';
import { toMessage } from '../../../lib/enqueue/to-message.js';
import { messageRules, refusal } from '../../support/enqueue.js';

class Item {
  @IsString()
  readonly sku: string;
  @IsPositive()
  readonly price: number;
  constructor(sku: string, price: number) {
    this.sku = sku;
    this.price = price;
  }
}

@OutboxEvent({ type: 'order.validated', key: (event) => event.orderId, validate: (event) => validateSync(event) })
class OrderValidated {
  @IsString()
  readonly orderId: string;
  @IsArray()
  @ValidateNested({ each: true })
  readonly items: Item[];
  constructor(orderId: string, items: Item[]) {
    this.orderId = orderId;
    this.items = items;
  }
}

@OutboxEvent({ type: 'order.unknown', validate: (event) => validateSync(event) })
class WithoutDecorators {
  readonly id = 1;
}

describe('`validate` with class-validator', () => {
  it('takes an event that is right, as its class is', () => {
    const event = new OrderValidated('o-1', [new Item('a', 1)]);
    expect(String(toMessage(event, {}, messageRules())[0]?.payload)).toBe(JSON.stringify(event));
  });

  it('names what is wrong, also inside of lists', async () => {
    const event = new OrderValidated('o-1', [new Item('a', 1), new Item(5 as never, -9_876_543_210)]);
    const { code, message, error } = await refusal(() => toMessage(event, {}, messageRules()));
    expect(code).toBe('PAYLOAD_INVALID');
    expect(message).toContain(
      "Event 'order.validated': its `validate` refuses event.items[1].sku and event.items[1].price. ",
    );
    expect(`${message}${String(error.cause)}`).not.toContain('9876543210');
  });

  it('refuses a class that it does not know', async () => {
    const { code, message } = await refusal(() => toMessage(new WithoutDecorators(), {}, messageRules()));
    expect([code, message]).toEqual(['PAYLOAD_INVALID', expect.stringContaining('its `validate` refuses event.')]);
  });
});
