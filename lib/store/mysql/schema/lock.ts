import { createHash } from 'node:crypto';
import { OutboxError } from '../../../outbox.errors.js';

/** Runs a statement on one session and gives the first value of its first row. */
export type Ask = (sql: string, values: readonly unknown[]) => Promise<unknown>;
interface Tables {
  readonly schema?: string | undefined;
  readonly prefix: string;
}

/** Longer names are refused by the servers. */
const LONGEST_NAME = 64;
/** Seconds of one question: below any limit of a statement that is likely. */
const STEP = 1;
const WAIT = 60;

/**
 * What makes or changes tables does so in one session at a time: each statement commits by itself, and what it looked for
 * may be made by another one before it is.
 * @param ask always of the same session, which holds the lock
 * @param wait seconds until whoever waits for another session gives up
 */
export async function oneAtATime<T>(ask: Ask, tables: Tables, work: () => Promise<T>, wait = WAIT): Promise<T> {
  const name = lockName(tables);
  await take(ask, name, tables, wait);
  try {
    return await work();
  } finally {
    // The session may go back to a pool with the lock. One that cannot be asked has ended, and its lock with it.
    await ask('select release_lock(?)', [name]).catch(() => undefined);
  }
}

async function take(ask: Ask, name: string, { schema, prefix }: Tables, wait: number): Promise<void> {
  for (let waited = 0; waited < wait; waited += STEP)
    if (Number(await ask('select get_lock(?, ?)', [name, STEP])) === 1) return;
  const holder = await ask('select is_used_lock(?)', [name]);
  throw new OutboxError(
    'TIMEOUT',
    `Another session has been changing the outbox tables of ${schema ?? 'this database'} with prefix ${prefix} for ${wait} s. It holds the lock ${JSON.stringify(name)}, and is connection ${String(holder)} of the server.`,
    { hint: 'Start again once it has finished. If it hangs, find out why with: show full processlist.' },
  );
}

/** These locks are one per server, so the name has the database; both servers take upper and lower case for the same. */
export function lockName({ schema = '', prefix }: Tables): string {
  const name = `nestjs-outbox ${schema}.${prefix}`.toLowerCase();
  if (name.length <= LONGEST_NAME) return name;
  return `nestjs-outbox ${createHash('sha256').update(name).digest('hex')}`.slice(0, LONGEST_NAME);
}
