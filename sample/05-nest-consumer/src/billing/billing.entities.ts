import { Column, Entity, PrimaryGeneratedColumn } from 'typeorm';

/** Nothing in it prevents a second invoice for an order, or a payment that counts twice: only the inbox does. */
@Entity('invoices')
export class Invoice {
  @PrimaryGeneratedColumn()
  number!: number;

  @Column('varchar', { name: 'order_id', length: 36 })
  orderId!: string;

  /** Cents. */
  @Column('int')
  total!: number;

  /** Cents. */
  @Column('int', { default: 0 })
  paid!: number;
}
