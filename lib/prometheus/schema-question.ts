import type { OutboxService } from '../enqueue/outbox.service.js';
import { OutboxConfigurationError } from '../outbox.errors.js';

/** Whether the tables are other ones than this version needs: the comparison of a start, again and again. */
export function schemaQuestion({ options, store }: OutboxService['runtime']): () => Promise<boolean> {
  return () =>
    store.setup.check(options).then(
      () => false,
      (error: unknown) => {
        if (error instanceof OutboxConfigurationError && OF_SCHEMA.has(error.code)) return true;
        throw error;
      },
    );
}

/** Not of the server: a replica says nothing about the tables. */
const OF_SCHEMA: ReadonlySet<string> = new Set(['SCHEMA_MISMATCH', 'SCHEMA_MISSING']);
