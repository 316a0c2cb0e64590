import type { DataSource } from 'typeorm';
import { TypeOrm } from '../../lib/data-layers/typeorm/typeorm.js';
import { openStore as openOn, type OpenStoreSettings } from '../../lib/nest/open-store.js';
import type { OutboxStore } from '../../lib/store/outbox-store.js';

/** As the module opens it. */
export function openStore(dataSource: DataSource, settings: OpenStoreSettings): OutboxStore {
  return openOn(new TypeOrm(dataSource), settings);
}
