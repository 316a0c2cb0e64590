import { AsyncLocalStorage } from 'node:async_hooks';
import { DataSource } from 'typeorm';
import { OutboxDispatcher, OutboxEvent, OutboxService, type Backoff } from '../../lib/index.js';
import { describeWith } from '../support/services.js';
import { useApplications } from './support/app.js';
import { startRefusing } from './support/refusing.js';

@OutboxEvent({ type: 'plain' })
class Plain {}

describeWith('postgres', 'retry.backoff', () => {
  const { applications, database } = useApplications('postgres', 'test');

  /** Minutes until the next try of one message that its transport blames, and the errors that were told. */
  async function afterFailure(event: object, backoff: Backoff): Promise<{ minutes: number; errors: string[] }> {
    const app = await startRefusing(applications, database, { backoff, initial: '10m', max: '1d', jitter: 'equal' });
    const errors: string[] = [];
    app.get(OutboxService).events.on('error', ({ error }) => errors.push((error as Error).message));
    await app.get(OutboxService).enqueueOutsideTransaction(event);
    await request.run('of a request', () => app.get(OutboxDispatcher).runOnce());
    const sql = 'select extract(epoch from due_at - now()) / 60 as minutes from outbox_parked';
    const [{ minutes }] = (await app.get(DataSource).query(sql)) as [{ minutes: string }];
    return { minutes: Number(minutes), errors };
  }
  const request = new AsyncLocalStorage<string>();

  it('says when the message is tried again, and sees nothing of a request', async () => {
    const asked: unknown[] = [];
    const { minutes, errors } = await afterFailure(new Plain(), (attempts, { type }, error) => {
      asked.push(attempts, type, error instanceof Error, request.getStore());
      return '2h';
    });
    expect(asked).toEqual([1, 'plain', true, undefined]);
    expect(minutes).toBeGreaterThan(118);
    expect(minutes).toBeLessThanOrEqual(120);
    expect(errors).toEqual([]);
  });
});
