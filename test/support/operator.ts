import type { OutboxStore } from '../../lib/index.js';
import { Operator } from '../../lib/testing/store-contract/harness.js';
import type { SchemaSettings } from '../../lib/store/outbox-store.js';
import { SETTINGS } from './postgres-store.js';

/** An operator at this store. @param settings where a call names a key beside ids */
export function operatorOf(
  store: OutboxStore,
  settings: Pick<SchemaSettings, 'buckets' | 'ordering'> = SETTINGS,
): Operator {
  return new Operator(store, settings);
}
