import { Check, Column, Entity, JoinColumn, ManyToOne, PrimaryColumn } from 'typeorm';

@Entity('articles')
@Check('stock >= 0')
export class Article {
  @PrimaryColumn('text')
  sku!: string;

  /** Cents. */
  @Column('integer')
  price!: number;

  @Column('integer')
  stock!: number;
}

@Entity('customers')
export class Customer {
  @PrimaryColumn('text')
  id!: string;

  /** Orders so far: an order's number within its customer. */
  @Column('integer', { default: 0 })
  orders!: number;
}

@Entity('orders')
export class Order {
  @PrimaryColumn('text')
  id!: string;

  @Column('text')
  customer!: string;

  /** 1, 2, 3 … for each customer. */
  @Column('integer')
  number!: number;

  @Column('text')
  sku!: string;

  @ManyToOne(() => Article)
  @JoinColumn({ name: 'sku' })
  article?: Article;

  @Column('integer')
  quantity!: number;

  /** Cents. */
  @Column('integer')
  total!: number;
}
