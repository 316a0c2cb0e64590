import { Body, Controller, HttpCode, Param, Post } from '@nestjs/common';
import { OrdersService } from './orders.service.js';

@Controller('orders')
export class OrdersController {
  constructor(private readonly orders: OrdersService) {}

  @Post()
  @HttpCode(202)
  async place(@Body() { id, total }: { id: string; total: number }): Promise<void> {
    await this.orders.place(id, total);
  }

  @Post(':id/payment')
  @HttpCode(202)
  async pay(@Param('id') id: string): Promise<void> {
    await this.orders.pay(id);
  }
}
