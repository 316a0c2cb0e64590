import { Column, Entity, PrimaryColumn } from 'typeorm';
import type { OrderItem } from './order.js';

@Entity('products')
export class ProductRow {
  @PrimaryColumn('text') id!: string;
  @Column('int') price!: number;
  @Column('int', { name: 'in_stock' }) inStock!: number;
  @Column('int') reserved!: number;
}

@Entity('orders')
export class OrderRow {
  @PrimaryColumn('text') id!: string;
  @Column('text', { name: 'user_id' }) userId!: string;
  @Column('jsonb') items!: OrderItem[];
  @Column('int') total!: number;
}
