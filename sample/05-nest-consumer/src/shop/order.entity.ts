import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity('orders')
export class Order {
  @PrimaryColumn('varchar', { length: 36 })
  id!: string;

  /** Cents. */
  @Column('int')
  total!: number;

  @Column('boolean', { default: false })
  paid!: boolean;
}
