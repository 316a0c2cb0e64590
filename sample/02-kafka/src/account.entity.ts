import { Check, Column, Entity, PrimaryColumn } from 'typeorm';

@Entity('accounts')
@Check('balance >= 0')
export class Account {
  @PrimaryColumn('text')
  id!: string;

  @Column('integer')
  balance!: number;
}
