import { EntitySchema } from 'typeorm';
import { checkNames } from '../../store/names.js';

/** A message as `outbox_messages` shows it, whatever state it is in. */
export interface OutboxMessageRow {
  id: string;
  /** `ready`, `scheduled`, `waiting` (for a retry), `blocked`, `dead`, `published`. */
  state: string;
  topic: string;
  key: string | null;
  type: string;
  version: number;
  contentType: string;
  /** Name in the module's options. `null`: one that never started here. */
  transport: string | null;
  /** JSON text, `null` for none. Not read unless it is selected: a login for dashboards may not. */
  headers?: string | null;
  /** Of brokers, as JSON text, `null` for none. Not read unless it is selected. */
  options?: string | null;
  /** Text on PostgreSQL, bytes on MariaDB and MySQL; `null` is a tombstone. Not read unless it is selected. */
  payload?: string | Buffer | null;
  createdAt: Date;
  attempts: number;
  dueAt: Date | null;
  lastError: string | null;
  lastAttemptAt: Date | null;
  /** The last failures, oldest first, as JSON text; `null` unless `retry.errorHistory` keeps them. */
  errors: string | null;
  publishedAt: Date | null;
  bucket: number;
  /** A string: it may pass 2^53. */
  seq: string;
}

/**
 * For reading the outbox with repositories and query builders. Never synchronized: `synchronize` and
 * `migration:generate` leave the view and the tables behind it alone. Writing goes through `OutboxService`.
 */
export function outboxEntities(options: { prefix?: string; schema?: string } = {}): EntitySchema<OutboxMessageRow>[] {
  const { prefix = 'outbox_', schema } = options;
  checkNames({ prefix, schema });
  const messages = new EntitySchema<OutboxMessageRow>({
    name: `${prefix}messages`,
    tableName: `${prefix}messages`,
    ...(schema === undefined ? {} : { schema }),
    synchronize: false,
    columns: {
      id: { type: String, primary: true },
      state: { type: String },
      topic: { type: String },
      key: { type: String, nullable: true },
      type: { type: String },
      version: { type: Number },
      contentType: { type: String, name: 'content_type' },
      transport: { type: String, nullable: true },
      headers: { type: String, nullable: true, select: false },
      options: { type: String, nullable: true, select: false },
      payload: { type: String, nullable: true, select: false },
      createdAt: { type: Date, name: 'created_at' },
      attempts: { type: Number },
      dueAt: { type: Date, name: 'due_at', nullable: true },
      lastError: { type: String, name: 'last_error', nullable: true },
      lastAttemptAt: { type: Date, name: 'last_attempt_at', nullable: true },
      errors: { type: String, nullable: true },
      publishedAt: { type: Date, name: 'published_at', nullable: true },
      bucket: { type: Number },
      seq: { type: 'bigint', primary: true }, // with the id: a message for two transports has two rows
    },
  });
  return [messages];
}
