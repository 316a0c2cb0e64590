import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { canariesIn } from '../security/canaries.js';
import type { DatabaseServer } from './servers/database.js';

export interface Leak {
  readonly where: string;
  readonly secret: string;
}

/**
 * Secrets of the workload in what the processes said, and in what the dead-letter hook was told, which is in the relays' parts.
 * Deliveries are left out: those with wrong bytes are written down as they came.
 */
export function leaksIn(parts: string): { files: number; leaks: Leak[] } {
  const files = readdirSync(parts).filter((name) => name.endsWith('.log') || /^relay-.*\.jsonl$/.test(name));
  const leaks = files.flatMap((where) =>
    canariesIn(readFileSync(join(parts, where), 'utf8')).map((secret) => ({ where, secret })),
  );
  return { files: files.length, leaks };
}

/** And in the errors of what is left in the tables; payloads stand beside them, as they must. */
export async function leaksInErrors(database: DatabaseServer): Promise<{ errors: number; leaks: Leak[] }> {
  const rows = await database.query('select id, last_error, errors from outbox_parked where last_error is not null');
  const leaks = rows.flatMap(([id, ...errors]) =>
    canariesIn(errors.join('\n')).map((secret) => ({ where: `the errors of ${id}`, secret })),
  );
  return { errors: rows.length, leaks };
}
