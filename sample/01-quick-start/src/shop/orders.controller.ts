import { BadRequestException, Body, Controller, HttpCode, Post } from '@nestjs/common';
import { MAX_QUANTITY, type NewOrder, OrdersService } from './orders.service.js';

@Controller('orders')
export class OrdersController {
  constructor(private readonly orders: OrdersService) {}

  /** 202: the order is committed, and whoever wants to know of it will be told. */
  @Post()
  @HttpCode(202)
  async place(@Body() body: unknown): Promise<{ orderId: string }> {
    const order = checked(body);
    await this.orders.place(order);
    return { orderId: order.orderId };
  }
}

function checked(body: unknown): NewOrder {
  const { orderId, customer, sku, quantity } = (body ?? {}) as Partial<NewOrder>;
  const texts = [orderId, customer, sku].every((text) => typeof text === 'string' && text !== '');
  if (!texts || !Number.isInteger(quantity) || quantity! < 1 || quantity! > MAX_QUANTITY) {
    throw new BadRequestException('expected {"orderId": "…", "customer": "…", "sku": "…", "quantity": 1}');
  }
  return { orderId, customer, sku, quantity } as NewOrder;
}
