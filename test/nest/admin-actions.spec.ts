// @tier gate
import { hostname } from 'node:os';
import { DataSource } from 'typeorm';
import { OutboxAdmin, OutboxModule, OutboxService, type BulkProgress, type OutboxOptions } from '../../lib/index.js';
import { uuidV7 } from '../../lib/message/uuid-v7.js';
import type { StoredRow } from '../../lib/store/inspect-store.js';
import { createTestDatabase, type TestDatabase } from '../support/databases.js';
import { DATABASES, describeWith } from '../support/services.js';
import type { OutboxMessage, PublishResult } from '../../lib/index.js';
import { Applications, build, CollectingTransport, quiet, typeOrm, until } from './support/app.js';
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

describe.each(DATABASES)('What OutboxAdmin does on %s', (kind) => {
  describeWith(kind, 'in an application', () => {
    let database: TestDatabase;
    let transport: RefusingTransport;
    let admin: OutboxAdmin;
    let outbox: OutboxService;
    const applications = new Applications();
    beforeEach(async () => {
      database = await createTestDatabase(kind);
      transport = new RefusingTransport();
    });
    afterEach(async () => {
      await applications.close();
      await database.drop();
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
    const deadIds = async (): Promise<string[]> =>
      (await allFound(admin, { state: 'dead' })).map(({ id }) => id).sort();
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

    it('does not requeue once more what dies again meanwhile', async () => {
      await start();
      await dead(3);
      // The transport still refuses: what is requeued is dead again before the next chunk begins.
      const died = async (): Promise<void> => until(async () => (await outbox.stats()).total.dead === 3);
      const report = await admin.requeue({ state: ['dead', 'waiting'] }, { chunkSize: 1, pause: '200ms' });
      expect(report).toMatchObject({ done: 3, outcome: 'done' });
      await died();
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

    it('goes on where a call was aborted: what is said is what was done', async () => {
      await start({ relay: false });
      await later(7);
      const abort = new AbortController();
      const first = await admin.cancel(
        { type: 'later' },
        { chunkSize: 3, signal: abort.signal, progress: () => abort.abort() },
      );
      expect(first).toMatchObject({ done: 3, outcome: 'aborted' });
      expect((await outbox.stats()).total.scheduled).toBe(4);
      expect((await admin.audit()).entries).toMatchObject([{ done: 3, outcome: 'aborted', error: null }]);
      expect(await admin.cancel({ type: 'later' })).toMatchObject({ done: 4, outcome: 'done' });
      expect((await outbox.stats()).total.scheduled).toBe(0);
    });

    it('is ended from elsewhere, before its next chunk', async () => {
      await start({ relay: false });
      const count = 300; // so many that the stop comes in the middle, however late it is
      await later(count);
      const stopped: Promise<boolean>[] = [];
      const progress = (): void => {
        if (stopped.length > 0) return;
        stopped.push(admin.audit().then(({ entries: [entry] }) => admin.stop(entry?.id as string)));
      };
      const report = await admin.cancel({ type: 'later' }, { chunkSize: 1, pause: '100ms', progress });
      expect(await Promise.all(stopped)).toEqual([true]);
      expect(report.outcome).toBe('aborted');
      expect(report.done).toBeLessThan(count);
      expect((await outbox.stats()).total.scheduled).toBe(count - report.done);
      expect((await admin.audit()).entries).toMatchObject([{ outcome: 'aborted', done: report.done }]);
      expect(await admin.stop(report.auditId)).toBe(false);
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
        ) as readonly StoredRow[] as readonly [StoredRow];
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

    it('cancels what is scheduled and what is ready while nobody publishes, also by age', async () => {
      await start({ relay: false });
      await outbox.enqueueOutsideTransaction(Array.from({ length: 3 }, () => ({ type: 'ready', payload: 1 })));
      await later(2);
      expect(await admin.cancel({ olderThan: '1h' })).toMatchObject({ done: 0, skipped: 0 });
      expect(await admin.cancel({ type: 'ready', state: 'scheduled' })).toMatchObject({ done: 0 });
      expect(await admin.cancel({ transport: 'default' }, { chunkSize: 2 })).toMatchObject({ done: 5, skipped: 0 });
      expect((await outbox.stats()).total).toMatchObject({ ready: 0, scheduled: 0 });
    });

    it('names ids, and releases a key', async () => {
      await start({ onDead: 'block' });
      const [first] = await dead(1, { key: 'k' });
      await outbox.enqueueOutsideTransaction({ type: 'a', key: 'k', payload: 2 });
      await until(async () => (await outbox.stats()).total.blocked === 1);
      transport.refuses = false;
      const { released, auditId } = await admin.release('k', { transport: 'default', by: 'ann' });
      expect(released).toBe(1);
      await until(async () => (await outbox.stats()).total.blocked === 0);
      expect(await admin.discard({ ids: [first as string, uuidV7()] })).toMatchObject({ done: 1, skipped: 0 });
      const { entries, next } = await admin.audit({ limit: 1 });
      expect(entries).toMatchObject([{ action: 'discard', filter: expect.stringContaining(first as string) }]);
      expect((await admin.audit({ limit: 1, after: next as string })).entries).toMatchObject([
        { id: auditId, action: 'release', by: 'ann', filter: '{"key":"k","transport":"default"}', done: 1 },
      ]);
      expect(entries[0]?.by).toMatch(new RegExp(`@${hostname()}$`));
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
});
