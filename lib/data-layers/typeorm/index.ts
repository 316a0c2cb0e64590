/** `nestjs-outbox/typeorm`: the tables of the outbox for TypeORM's migrator, as text, and for reading. */
export { outboxMigrations, type OutboxMigrationOptions } from './migrations.js';
export { outboxSql, type OutboxDialect, type OutboxSchemaOptions } from '../drivers/outbox-sql.js';
export { typeOrmLayer } from './layer.js';
export { outboxEntities, type OutboxMessageRow } from './entities.js';
export type { MigrationInterface } from 'typeorm';
