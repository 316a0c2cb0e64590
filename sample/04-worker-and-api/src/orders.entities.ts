import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity('orders')
export class Order {
  @PrimaryColumn('varchar', { length: 36 })
  id!: string;

  @Column('varchar', { length: 100 })
  customer!: string;

  /** Cents. */
  @Column('int')
  total!: number;
}
