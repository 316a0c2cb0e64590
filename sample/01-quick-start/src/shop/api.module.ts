import { Module } from '@nestjs/common';
import { OrdersController } from './orders.controller.js';
import { OrdersService } from './orders.service.js';
import { shared } from './shared.js';

@Module({ imports: shared(false), controllers: [OrdersController], providers: [OrdersService] })
export class ApiModule {}
