import { Column, CreateDateColumn, Entity, PrimaryColumn, PrimaryGeneratedColumn } from 'typeorm';

/** The ids of the messages whose effect is committed. */
@Entity('handled_messages')
export class HandledMessage {
  @PrimaryColumn('uuid')
  id!: string;

  @CreateDateColumn({ name: 'handled_at', type: 'timestamptz' })
  handledAt!: Date;
}

/** Nothing in it prevents a second invoice for an order, or a payment that counts twice: only the ids do. */
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
