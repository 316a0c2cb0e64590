// @tier gate
import { DataSource } from 'typeorm';
import { OutboxAdmin, OutboxModule, OutboxService, type BulkProgress, type OutboxOptions } from '../../lib/index.js';
import { uuidV7 } from '../../lib/message/uuid-v7.js';
import type { StoredRow } from '../../lib/store/inspect-store.js';
import { describeOnEach } from '../support/services.js';
import type { OutboxMessage, PublishResult } from '../../lib/index.js';
import { useApplications, build, CollectingTransport, quiet, typeOrm, until } from './support/app.js';
import { waitsForLock } from '../support/open-transactions.js';
import { allFound } from './support/found.js';

/** Refuses every message, in its own words. */
class RefusingTransport extends CollectingTransport {
  refuses = true;
  says = 'no';

  override async publish(batch: readonly OutboxMessage[]): Promise<PublishResult[]> {
    if (!this.refuses) return super.publish(batch);
    const error = (n: number): Error => new Error(this.says.replace('#', String(n)));
    return batch.map((_, n) => ({ ok: false, blame: 'message', error: error(n) }));
  }
}

/** MySQL's monitor does not tell of who waits for a row that is read while the statement is planned. */
const WAITING = `select 1 from performance_schema.data_lock_waits w join performance_schema.threads t
  on t.thread_id = w.requesting_thread_id where t.processlist_db = database()`;

describeOnEach([], 'What OutboxAdmin does, in an application', (kind) => {
  let transport: RefusingTransport;
  let admin: OutboxAdmin;
  let outbox: OutboxService;
  const { applications, database } = useApplications(kind, 'test');
  beforeEach(async () => {
    transport = new RefusingTransport();
  });
  const start = async (options: Partial<OutboxOptions> = {}): Promise<void> => {
    const retry = { maxAttempts: 1 } as const;
    const module = OutboxModule.forRoot(
      quiet({ transports: { default: transport }, retry, onDead: 'skip', ...options }),
    );
    const app = await applications.start(build([typeOrm(database), module]));
    [admin, outbox] = [app.get(OutboxAdmin), app.get(OutboxService)];
  };
  const dead = async (count: number, fields: object = {}): Promise<string[]> => {
    const before = (await outbox.stats()).total.dead;
    const messages = Array.from({ length: count }, () => ({ type: 'a', payload: 1, ...fields }));
    const ids = await outbox.enqueueOutsideTransaction(messages);
    await until(async () => (await outbox.stats()).total.dead === before + count);
    return ids;
  };
  const deadIds = async (): Promise<string[]> => (await allFound(admin, { state: 'dead' })).map(({ id }) => id).sort();
  const later = (count: number, type = 'later'): Promise<string[]> =>
    outbox.enqueueOutsideTransaction(
      Array.from({ length: count }, () => ({ type, payload: 1 })),
      { delay: '1h' },
    );

  it('requeues in chunks all that a filter names, tells how far it is, and writes down who did it', async () => {
    await start();
    const ids = await dead(5);
    await dead(2, { type: 'b' });
    expect(await admin.requeue({ type: 'a' }, { dryRun: true })).toEqual({ count: 5 });
    expect((await admin.audit()).entries).toEqual([]);
    transport.refuses = false;
    const seen: BulkProgress[] = [];
    const report = await admin.requeue(
      { type: 'a' },
      { by: 'ann\u001b[31m', chunkSize: 2, pause: 1, progress: (one) => seen.push(one) },
    );
    const none = { changed: [], tooLate: [], notFound: [] }; // lists are of ids
    expect(report).toEqual({
      auditId: expect.any(String),
      done: 5,
      skipped: 0,
      outcome: 'done',
      more: false,
      ...none,
    });
    expect(seen.map(({ done }) => done)).toEqual([2, 4, 5]);
    expect(seen.at(-1)).toEqual({ done: 5, skipped: 0, fraction: 1 });
    await until(() => ids.every((id) => transport.ids.includes(id)));
    expect(await deadIds()).toHaveLength(2);
    const { entries, next } = await admin.audit();
    expect(entries).toEqual([
      {
        ...{ id: report.auditId, action: 'requeue', by: 'ann\\u001b[31m', filter: '{"type":"a"}' },
        ...{ begunAt: expect.any(Date), lastAt: expect.any(Date), endedAt: expect.any(Date) },
        ...{ done: 5, skipped: 0, outcome: 'done', error: null },
      },
    ]);
    expect(next).toBeNull();
  });

  it('discards a group of failures, and nothing that failed otherwise', async () => {
    await start();
    transport.says = 'order # is refused';
    await dead(3);
    transport.says = 'no such customer';
    const others = await dead(2);
    const group = (await admin.failures()).groups.find(({ error }) => error === 'order <n> is refused');
    expect(group).toMatchObject({ count: 3 });
    expect(await admin.discard({ group: group as never }, { dryRun: true })).toEqual({ count: 3 });
    expect(await admin.discard({ group: group as never })).toMatchObject({ done: 3, outcome: 'done' });
    expect(await deadIds()).toEqual(others.sort());
    expect((await admin.audit()).entries[0]?.filter).toMatch('order <n> is refused');
  });

  it('is ended from elsewhere within a chunk of what is ready: what is said is what was done', async () => {
    await start({ relay: false });
    const elsewhere = admin;
    await start({ relay: false });
    const messages = Array.from({ length: 40 }, (_, n) => ({ type: 'a', key: `k${n}`, payload: n }));
    await outbox.enqueueOutsideTransaction(messages);
    const dataSource = await new DataSource(database.options).initialize();
    const runner = dataSource.createQueryRunner();
    try {
      const page = await admin.sources.store.inspect?.find({ state: 'ready', after: null, limit: messages.length });
      const [{ transport: of, bucket }] = [...new Map(page?.rows.map((row) => [row.bucket, row])).values()].slice(
        -1,
      ) as unknown as [StoredRow];
      await runner.startTransaction();
      await runner.query(`select 1 from outbox_leases where transport = ${of} and bucket = ${bucket} for update`);
      const running = admin.cancel({ type: 'a' }, { chunkSize: messages.length });
      if (kind !== 'mysql') expect(await waitsForLock({ dataSource, database }, running)).toBe(true);
      else await until(async () => ((await dataSource.query(WAITING)) as unknown[]).length > 0);
      const [entry] = (await elsewhere.audit()).entries;
      expect(await elsewhere.stop(entry?.id as string)).toBe(true);
      await runner.commitTransaction();
      const { done, skipped, outcome } = await running;
      expect((await admin.audit()).entries).toMatchObject([{ done, skipped, outcome }]);
      expect((await outbox.stats()).total.ready).toBe(messages.length - done);
      expect(outcome).toBe('aborted');
      expect(done).toBe(0); // a chunk is one transaction
    } finally {
      await runner.release();
      await dataSource.destroy();
    }
  });

  it('is written down as failed with what it did, when a caller throws', async () => {
    await start({ relay: false });
    await later(4);
    const thrown = new Error('postgres://user:secret@host is away');
    const progress = (): void => {
      throw thrown;
    };
    await expect(admin.cancel({ type: 'later' }, { chunkSize: 2, progress })).rejects.toBe(thrown);
    const { entries } = await admin.audit();
    expect(entries).toMatchObject([{ outcome: 'failed', done: 2, error: expect.stringContaining('is away') }]);
    expect(JSON.stringify(entries)).not.toContain('secret');
    expect((await outbox.stats()).total.scheduled).toBe(2);
  });

  it('refuses what it does not know, and then writes nothing', async () => {
    await start({ relay: false });
    const refused = async (work: Promise<unknown>, text: RegExp | string): Promise<void> =>
      expect(work).rejects.toMatchObject({ code: 'INVALID_MESSAGE', message: expect.stringMatching(text) });
    const group = { transport: 'default', type: 'a', topic: 'a', error: 'no' };
    await refused(admin.requeue({}), 'the filter is empty');
    await refused(admin.requeue({ kye: 'k' } as never), "unknown field 'kye'. Did you mean 'key'?");
    await refused(admin.requeue({ state: 'scheduled' }), "state 'scheduled' is not one of");
    await refused(admin.requeue({ group, type: 'a' }), 'group has a type of its own');
    await refused(admin.requeue({ group: { ...group, error: 1 } as never }), 'its error is no string');
    await refused(admin.requeue({ type: 'a' }, { chunkSize: 0 }), 'chunkSize must be');
    await refused(admin.requeue({ type: 'a' }, { pause: '1d' }), 'pause must be');
    await refused(admin.requeue({ type: 'a' }, { by: '' }), 'by is empty');
    await refused(admin.requeue({ type: 'a' }, { limit: 0 }), 'limit must be');
    await refused(admin.requeue({ ids: [uuidV7()] }, { limit: 1 }), 'limit does not go with ids');
    await refused(admin.release(''), 'key must be');
    await refused(admin.release('x'.repeat(70_000)), 'more than any message has');
    await refused(admin.requeue({ type: 'x'.repeat(70_000) }), 'more than any message has');
    await refused(admin.audit({ after: 'x' }), 'after must be');
    await refused(admin.stop('1; drop'), 'auditId must be');
    await expect(admin.discard({ transport: 'nowhere' })).rejects.toMatchObject({ code: 'UNKNOWN_TRANSPORT' });
    expect((await admin.audit()).entries).toEqual([]);
  });
});
