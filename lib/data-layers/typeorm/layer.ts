import type { DataSource, EntityManager } from 'typeorm';
import type { OutboxDataLayer } from '../../outbox-data-layer.js';
import { TypeOrm } from './typeorm.js';

/** The data layer of a DataSource that is no provider of the application; those that are one are found. */
export function typeOrmLayer(dataSource: DataSource): OutboxDataLayer<EntityManager> {
  return new TypeOrm(dataSource) as OutboxDataLayer<object> as OutboxDataLayer<EntityManager>;
}
