import { Column, Entity, PrimaryColumn, PrimaryGeneratedColumn } from 'typeorm';

@Entity('orders')
export class Order {
  @PrimaryColumn('text')
  customer!: string;

  @PrimaryColumn('int')
  number!: number;
}

/** Takes an order twice, if somebody writes it twice. */
@Entity('invoices')
export class Invoice {
  @PrimaryGeneratedColumn()
  position!: number;

  @Column('text')
  customer!: string;

  @Column('int')
  number!: number;
}
