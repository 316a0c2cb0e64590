import type { DataSource } from 'typeorm';
import type { OutboxStore } from '../../lib/index.js';
import { TypeOrm } from '../../lib/data-layers/typeorm/typeorm.js';
import { openStore as openOn, type OpenStoreSettings } from '../../lib/nest/open-store.js';

/** As the module opens it. */
export function openStore(dataSource: DataSource, settings: OpenStoreSettings): OutboxStore {
  return openOn(new TypeOrm(dataSource), settings);
}
