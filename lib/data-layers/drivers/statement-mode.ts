import { OutboxConfigurationError } from '../../outbox.errors.js';

/** PgBouncer in statement mode ends the connection of whoever begins a transaction. */
export function refuseStatementMode(error: unknown): never {
  if (!/statement pooling mode/.test(String((error as Error | undefined)?.message))) throw error;
  throw new OutboxConfigurationError(
    'UNSUPPORTED_DATABASE',
    'The pooler in front of PostgreSQL takes no transactions (PgBouncer: pool_mode = statement), and an outbox is nothing without them.',
    { hint: 'Set pool_mode to transaction for this database, or lead its connections past the pooler.', cause: error },
  );
}
