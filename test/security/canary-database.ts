import { randomBytes } from 'node:crypto';
import type { DataSource } from 'typeorm';
import type { OutboxService } from '../../lib/index.js';
import { takeChunks } from '../support/lost-chunks.js';
import { CANARY } from './canaries.js';
import { secret } from './canary-enqueue.js';
import type { Seen } from './seen.js';

interface Surroundings {
  readonly seen: Seen;
  readonly admin: DataSource;
}
const toldCode = (seen: Seen, code: unknown): boolean =>
  seen.events.some(({ name, event }) => name === 'error' && (event['error'] as { code?: unknown }).code === code);

/** E11: an administrator cancels whatever waits for the hot table, an insert and reads of the relay among it. */
export async function cancelledStatements(outbox: OutboxService, { seen, admin }: Surroundings): Promise<void> {
  const postgres = admin.options.type === 'postgres';
  const waiting = postgres
    ? `select pg_cancel_backend(pid) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%outbox_ready%'`
    : `select id from information_schema.processlist where state like 'Waiting for table%' and info like '%outbox_ready%' and db = database()`;
  const send = () => outbox.enqueueOutsideTransaction(secret({ transport: 'quiet' }));
  await send(); // prepared: the next one waits with its values in hand
  const lock = admin.createQueryRunner();
  await lock.startTransaction();
  await lock.query(postgres ? 'lock table outbox_ready in access exclusive mode' : 'lock tables outbox_ready write');
  let over = false;
  const enqueue = seen.failure('E11: a cancelled enqueue', send);
  enqueue.finally(() => (over = true)).catch(() => undefined); // awaited below
  await seen.until('E11: a cancelled statement of the relay', async () => {
    const found = (await admin.query(waiting)) as { id: number }[];
    if (!postgres) for (const { id } of found) await admin.query(`kill query ${id}`).catch(() => undefined);
    return over && toldCode(seen, postgres ? '57014' : 'ER_QUERY_INTERRUPTED');
  });
  await enqueue;
  if (!postgres) await lock.query('unlock tables');
  await lock.rollbackTransaction();
  await lock.release();
}

/** D8: the disk lost a payload; what the server says of it is all that there is. */
export async function damagedPayload(outbox: OutboxService, { seen, admin }: Surroundings): Promise<void> {
  const payload = Buffer.concat([Buffer.from(CANARY.bytes), randomBytes(100_000)]); // nothing that could be compressed
  const message = secret({ type: 'damaged', payload, transport: 'quiet' });
  const id = await outbox.enqueueOutsideTransaction(message, { delay: '1h' });
  await takeChunks({ dataSource: admin }, id, 'outbox_parked');
  await admin.query('update outbox_parked set due_at = now() where id = $1', [id]);
  await seen.until('D8: a payload that is damaged', () => toldCode(seen, 'XX001'));
  seen.print('health, a payload is damaged', await outbox.health());
  // Its chunks, which are dead already, are deleted once more with their row, until they are swept up.
  await seen.until('D8: the damaged row is removed', async () => {
    await admin.query('vacuum outbox_parked');
    return admin.query('delete from outbox_parked where id = $1', [id]).then(
      () => true,
      () => false,
    );
  });
}
