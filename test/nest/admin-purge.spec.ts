import type { TestingModule } from '@nestjs/testing';
import { DataSource } from 'typeorm';
import { OutboxAdmin, OutboxDispatcher, OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { RecordingTransport } from '../../lib/testing/index.js';
import { PAGE_LOOK } from '../../lib/store/inspect-store.js';
import { series } from '../support/databases.js';
import { type DatabaseKind, describeOnEach } from '../support/services.js';
import { useApplications, build, quiet, typeOrm } from './support/app.js';
import { allFound } from './support/found.js';

/** A row each 50 ms, up to now. */
const publishedAt = (kind: DatabaseKind): string =>
  kind === 'postgres'
    ? `now() - (${3 * PAGE_LOOK} - s.seq) * interval '50 ms'`
    : `utc_timestamp(6) - interval (${3 * PAGE_LOOK} - s.seq) * 50000 microsecond`;

describeOnEach([], 'OutboxAdmin.purge, in an application', (kind) => {
  let transport: RecordingTransport;
  let app: TestingModule;
  let admin: OutboxAdmin;
  let outbox: OutboxService;
  const { applications, database } = useApplications(kind, 'test');
  beforeEach(async () => {
    transport = new RecordingTransport();
    const options: Partial<OutboxOptions> = {
      ...{ relay: 'manual', onPublished: 'archive', defaultTransport: 'default', retry: { maxAttempts: 1 } },
      transports: { default: transport, other: new RecordingTransport() },
    };
    app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet(options))]));
    [admin, outbox] = [app.get(OutboxAdmin), app.get(OutboxService)];
  });
  const enqueue = (messages: readonly object[], options = {}): Promise<string[]> =>
    outbox.enqueueOutsideTransaction(messages.map((one) => ({ type: 'a', payload: 1, ...one })) as never, options);
  const published = async (messages: readonly object[]): Promise<string[]> => {
    const ids = await enqueue(messages);
    await app.get(OutboxDispatcher).drain();
    return ids;
  };
  const archive = async (): Promise<string[]> =>
    (await allFound(admin, { state: 'published' })).map(({ id }) => id).sort();
  const query = (sql: string): Promise<Record<string, unknown>[]> => app.get(DataSource).query(sql);

  it('deletes what a filter names from the archive, and leaves everything else', async () => {
    transport.fail({ final: true, when: ({ topic }) => topic === 'dead' });
    const mine = { key: 'customer-1' };
    const gone = await published([mine, { ...mine, type: 'b' }, { ...mine, transport: ['default', 'other'] }]);
    const other = await published([{ key: 'customer-2' }, { key: null }, { key: 'customer-1 ' }]);
    const [dead] = await published([{ ...mine, topic: 'dead' }]);
    const ready = await enqueue([mine]);
    const later = await enqueue([mine], { delay: '1h' });
    expect(await admin.purge(mine, { dryRun: true })).toEqual({ count: 4, versions: 0 });
    expect(await archive()).toHaveLength(7);
    const report = await admin.purge(mine, { by: 'ann', chunkSize: 3 });
    expect(report).toEqual({ auditId: expect.any(String), done: 4, skipped: 0, versions: 0, outcome: 'done' });
    expect(await archive()).toEqual(other.sort());
    const left = (await allFound(admin, { key: 'customer-1' })).map(({ id }) => id).sort();
    expect(left).toEqual([dead, ...ready, ...later].sort());
    expect((await admin.find({ ids: gone })).messages).toEqual([]);
    expect((await admin.audit()).entries).toMatchObject([
      { id: report.auditId, action: 'purge', by: 'ann', filter: '{"key":"customer-1"}', done: 4, outcome: 'done' },
    ]);
    expect(await admin.purge(mine)).toMatchObject({ done: 0, outcome: 'done' });
  });

  it('deletes by ids, type, topic, transport and age, each for itself', async () => {
    const [a = '', b = '', c = '', d = ''] = await published([
      {},
      { type: 'b' },
      { topic: 'c' },
      { transport: ['other'] },
    ]);
    const later = kind === 'postgres' ? `published_at - interval '2 days'` : 'published_at - interval 2 day';
    const [old = ''] = await published([{ type: 'old' }]);
    await query(`update outbox_archive set published_at = ${later} where type = 'old'`);
    expect(await admin.purge({ olderThan: '1d' })).toMatchObject({ done: 1 });
    expect(await archive()).toEqual([a, b, c, d].sort());
    expect(await admin.purge({ type: 'b' })).toMatchObject({ done: 1 });
    expect(await admin.purge({ topic: 'c' })).toMatchObject({ done: 1 });
    expect(await admin.purge({ transport: 'other' })).toMatchObject({ done: 1 });
    expect(await archive()).toEqual([a]);
    expect(await admin.purge({ ids: [old, a], type: 'b' })).toMatchObject({ done: 0 });
    expect(await admin.purge({ ids: [old, a] })).toMatchObject({ done: 1 });
    expect(await archive()).toEqual([]);
  });

  it('goes on where a call was aborted: what is said is what was done', async () => {
    const [chunk, left] = [3, 4];
    await published(Array.from({ length: chunk + left }, () => ({})));
    const abort = new AbortController();
    const first = await admin.purge(
      { type: 'a' },
      { chunkSize: chunk, signal: abort.signal, progress: () => abort.abort() },
    );
    expect(first).toMatchObject({ done: chunk, outcome: 'aborted' });
    expect((await admin.audit()).entries).toMatchObject([{ done: chunk, outcome: 'aborted', error: null }]);
    expect(await archive()).toHaveLength(left);
    const fractions: number[] = [];
    const last = await admin.purge({ type: 'a' }, { progress: ({ fraction }) => fractions.push(fraction) });
    expect(last).toMatchObject({ done: left, outcome: 'done' });
    expect(fractions).toEqual([1]);
  });

  it('deletes what a message was before its edits; that it was edited stays', async () => {
    const ids = await enqueue([{ key: 'customer-1' }, { key: 'customer-2' }], { delay: '1h' });
    for (const id of ids) await admin.edit(id, { payload: 2 });
    expect(await admin.purge({ key: 'customer-1' }, { dryRun: true })).toEqual({ count: 0, versions: 1 });
    expect(await admin.purge({ key: 'customer-1' })).toMatchObject({ done: 1, versions: 1 });
    const [first, second] = await Promise.all(ids.map(async (id) => (await admin.show(id)).edits[0]));
    expect(first).toMatchObject({ before: null });
    expect(second).toMatchObject({ before: { payloadBytes: 1 } });
    const kept = await query(
      'select kept, kept_payload from outbox_audit where message_id is not null order by audit_id',
    );
    expect(kept.map((row) => [row['kept'] === null, row['kept_payload'] === null])).toEqual([[true, true], [false, false]]); // prettier-ignore
    expect(await admin.purge({ ids }, { dryRun: true })).toEqual({ count: 0, versions: 1 });
    expect(await allFound(admin)).toHaveLength(2);
  });

  it('finds nothing older than all calendars', async () => {
    await published([{}]);
    expect(await admin.purge({ olderThan: '3000000d' })).toMatchObject({ done: 0, outcome: 'done' });
  });

  it('tells of looks that found nothing, and ends behind one that heard an abort', async () => {
    const id = kind === 'postgres' ? 'gen_random_uuid()' : 'uuid()';
    await query(`insert into outbox_archive (transport, bucket, seq, id, topic, type, published_at)
        select 0, 1, s.seq, ${id}, 't', 't', ${publishedAt(kind)} from ${series(kind, 3 * PAGE_LOOK)}`);
    const abort = new AbortController();
    const seen: number[] = [];
    const progress = ({ fraction }: { fraction: number }): void => {
      seen.push(fraction);
      abort.abort();
    };
    expect(await admin.purge({ type: 'none' }, { progress, signal: abort.signal })).toMatchObject({
      outcome: 'aborted',
    });
    expect(seen).toEqual([0]); // how far it is says the time of what was found
    const looks: number[] = [];
    const what = { publishedFrom: new Date(0), type: 'none' };
    await admin.replay(what, { progress: ({ done }) => void looks.push(done) });
    expect(looks.length).toBeGreaterThanOrEqual(2);
  });

  it('refuses bad input, and writes nothing', async () => {
    const wrong: readonly [object, RegExp][] = [
      [{}, /the filter is empty/],
      [{ state: 'dead' }, /unknown field 'state'/],
      [{ ids: [] }, /at least one id/],
      [{ ids: ['1'] }, /ids\[0\] is not a message id: a UUID has 36 characters/],
      [{ key: '' }, /key must be a string that is not empty/],
      [{ key: 'x'.repeat(70_000) }, /key has 70000 characters, more than any message has/],
      [{ olderThan: 'x' }, /olderThan must be a duration/],
      [{ transport: 'nobody' }, /no transport 'nobody'/],
    ];
    for (const [selection, text] of wrong) await expect(admin.purge(selection)).rejects.toThrow(text);
    await expect(admin.purge({ type: 'a' }, { chunkSize: 0 })).rejects.toThrow(/chunkSize/);
    expect((await admin.audit()).entries).toEqual([]);
  });
});
