import { Column, Entity, PrimaryColumn } from 'typeorm';

@Entity('parcels')
export class Parcel {
  @PrimaryColumn('text')
  id!: string;

  @Column('text')
  country!: string;
}
