import { Injectable } from '@nestjs/common';
import { type Duration, OutboxService } from 'nestjs-outbox';
import { DataSource } from 'typeorm';
import { Parcel } from './parcel.entity.js';
import { ParcelSent } from './parcel.events.js';

@Injectable()
export class ParcelsService {
  constructor(
    private readonly dataSource: DataSource,
    private readonly outbox: OutboxService,
  ) {}

  async send(id: string, country: string, options: { express?: boolean; delay?: Duration } = {}): Promise<void> {
    const { express = false, delay } = options;
    await this.dataSource.transaction(async (manager) => {
      await manager.insert(Parcel, { id, country });
      const outbox = this.outbox.with(manager);
      await outbox.enqueue(new ParcelSent(id, country, express), delay === undefined ? {} : { delay });
    });
  }
}
