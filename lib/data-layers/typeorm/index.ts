/** `nestjs-outbox/typeorm`: the tables of the outbox for TypeORM's migrator, as text, and for reading. */
export {
  outboxMigrations,
  outboxSql,
  type OutboxDialect,
  type OutboxMigrationOptions,
  type OutboxSchemaOptions,
} from './migrations.js';
export { typeOrmLayer } from './layer.js';
export { outboxEntities, type OutboxMessageRow } from './entities.js';
