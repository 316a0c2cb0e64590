import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity('items')
export class Item {
  @PrimaryColumn('varchar', { length: 40 })
  id!: string;

  @Column('int')
  left!: number;
}
