import type { TestingModule } from '@nestjs/testing';
import { DataSource, type DataSourceOptions } from 'typeorm';
import {
  OutboxAdmin,
  OutboxModule,
  OutboxPartitionMaintainer,
  OutboxService,
  type HeaderValue,
  type OutboxMessage,
  type OutboxOptions,
  type PublishResult,
  type ReplayProgress,
} from '../../lib/index.js';
import { uuidV7 } from '../../lib/message/uuid-v7.js';
import { describeOnEach } from '../support/services.js';
import { useApplications, build, CollectingTransport, quiet, typeOrm, until } from './support/app.js';
import { SealingEncryption } from './support/sealing.js';
import { allFound } from './support/found.js';

/** What was published, in its order. */
interface Published {
  readonly id: string;
  readonly key: string | null;
  readonly topic: string;
  readonly type: string;
  readonly version: number;
  readonly headers: Readonly<Record<string, HeaderValue>>;
  readonly body: string;
}
class KeepingTransport extends CollectingTransport {
  readonly all: Published[] = [];
  refuses = false;

  override async publish(batch: readonly OutboxMessage[]): Promise<PublishResult[]> {
    if (this.refuses) return batch.map(() => ({ ok: false, blame: 'message', error: new Error('no') }));
    for (const { id, key, topic, type, version, headers, body } of batch)
      this.all.push({ id, key, topic, type, version, headers: { ...headers }, body: String(body) });
    return super.publish(batch);
  }
  of(key: string): string[] {
    return this.all.filter((one) => one.key === key).map(({ id }) => id);
  }
}

/** An id whose time is this one. */
const uuidV7At = (ms: number): string => {
  const time = ms.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-${uuidV7().slice(14)}`;
};
const FROM = new Date(0);
const NEW_YEAR = new Date('2026-01-01T00:00:00Z');
const at = (minutes: number): Date => new Date(NEW_YEAR.getTime() + minutes * 60_000);

describeOnEach([], 'A replay of the archive, in an application', (kind) => {
  let transport: KeepingTransport;
  let admin: OutboxAdmin;
  let outbox: OutboxService;
  let sql: DataSource;
  const { applications, database } = useApplications(kind, 'test');
  beforeEach(async () => {
    transport = new KeepingTransport();
    sql = await new DataSource(database.options as DataSourceOptions).initialize();
  });
  afterEach(async () => {
    await sql.destroy();
  });
  const start = async (options: Partial<OutboxOptions> = {}): Promise<TestingModule> => {
    await applications.close();
    const all = { transports: { default: transport }, retry: { maxAttempts: 1 }, onPublished: 'archive', ...options };
    const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet(all as OutboxOptions))]));
    [admin, outbox] = [app.get(OutboxAdmin), app.get(OutboxService)];
    return app;
  };
  const archived = async (): Promise<number> => {
    const [row] = (await sql.query('select count(*) as count from outbox_archive')) as { count: string }[];
    return Number(row?.count);
  };
  /** Publishes, and waits for the archive. */
  const publish = async (messages: readonly object[]): Promise<string[]> => {
    const before = await archived();
    const ids = await outbox.enqueueOutsideTransaction(messages.map((one) => ({ type: 'a', payload: 1, ...one })));
    await until(async () => (await archived()) === before + ids.length);
    return ids;
  };
  /** The n-th of these was published n minutes after the new year. */
  const publishedAt = async (ids: readonly string[], ...minutes: number[]): Promise<void> => {
    const [id, time] = kind === 'postgres' ? ['$2::uuid', '$1::timestamptz'] : ['?', 'cast(? as datetime(6))'];
    for (const [n, one] of ids.entries()) {
      const text = at(minutes[n] ?? n).toISOString();
      const value = kind === 'postgres' ? text : text.replace('T', ' ').replace('Z', '');
      await sql.query(`update outbox_archive set published_at = ${time} where id = ${id}`, [value, one]);
    }
  };
  const ready = async (): Promise<string[]> => (await allFound(admin, { state: 'ready' })).map(({ id }) => id);
  const many = (count: number, fields: object = {}): object[] => Array.from({ length: count }, () => fields);

  it('publishes again what a window has, as it was, in the order of the publishing, and behind what waits', async () => {
    await start();
    const messages = Array.from({ length: 12 }, (_, n) => ({
      ...{ type: `t${n % 2}`, topic: 'orders', key: `k${n % 3}`, version: 3, payload: { n } },
      headers: { trace: `h${n}`, raw: Buffer.from([n, 255]) },
    }));
    const ids = await publish(messages);
    const first = [...transport.all];
    await publishedAt(ids);
    transport.all.length = 0;
    const report = await admin.replay({ publishedFrom: at(2), publishedUntil: at(10) }, { by: 'ann', chunkSize: 3 });
    expect(report).toEqual({ auditId: expect.any(String), done: 8, skipped: 0, outcome: 'done' });
    await until(() => transport.all.length === 8);
    for (const key of ['k0', 'k1', 'k2'])
      expect(transport.of(key)).toEqual(ids.slice(2, 10).filter((_, n) => `k${(n + 2) % 3}` === key));
    const headers = { 'replay-audit-id': report.auditId };
    for (const again of transport.all) {
      const before = first.find(({ id }) => id === again.id) as Published;
      expect(again).toEqual({ ...before, headers: { ...before.headers, ...headers } });
    }
    expect((await admin.audit()).entries).toMatchObject([
      { id: report.auditId, action: 'replay', by: 'ann', done: 8, skipped: 0, outcome: 'done', error: null },
    ]);
    await until(async () => (await archived()) === 12 + 8);
  });

  it('takes what a filter names, and of ids also without a window', async () => {
    await start();
    const ids = await publish([
      { type: 'a', topic: 'x', key: 'k' },
      { type: 'b', topic: 'x', key: 'k' },
      { type: 'a', topic: 'y', key: 'l' },
      { type: 'a', topic: 'x', key: 'k' },
    ]);
    await start({ relay: false });
    const counted = async (filter: object): Promise<number> =>
      (await admin.replay({ publishedFrom: FROM, ...filter }, { dryRun: true })).count;
    expect(await counted({})).toBe(4);
    expect(await counted({ type: 'a' })).toBe(3);
    expect(await counted({ type: 'a', topic: 'x', key: 'k', transport: 'default' })).toBe(2);
    expect(await counted({ key: 'K' })).toBe(0);
    expect(await counted({ publishedUntil: NEW_YEAR })).toBe(0);
    expect(await admin.replay({ ids: [ids[2] as string, ids[0] as string, uuidV7()] })).toMatchObject({ done: 2 });
    expect(new Set(await ready())).toEqual(new Set([ids[0], ids[2]])); // what was published at once has no order but by key
  });

  it('says what it would do, and changes nothing', async () => {
    await start();
    const ids = await publish([...many(11, { type: 'a', topic: 'x', key: 'k' }), ...many(2, { type: 'b', key: 'k' })]);
    await publishedAt(ids);
    await start({ relay: false });
    const preview = await admin.replay({ publishedFrom: at(0) }, { dryRun: true });
    expect(preview).toEqual({
      ...{ count: 13, skipped: 0, bytes: 13, firstAt: at(0), lastAt: at(12), hint: null },
      transports: [{ name: 'default', count: 13 }],
      types: [
        { name: 'a', count: 11 },
        { name: 'b', count: 2 },
      ],
      topics: [
        { name: 'x', count: 11 },
        { name: 'b', count: 2 },
      ],
      messages: ids.slice(0, 10).map((id) => expect.objectContaining({ id, state: 'published', key: 'k' })),
    });
    expect(await ready()).toEqual([]);
    expect((await admin.audit()).entries).toEqual([]);
  });

  it('says that nobody keeps an archive', async () => {
    await start({ onPublished: 'delete' });
    const report = await admin.replay({ publishedFrom: FROM }, { dryRun: true });
    expect(report).toMatchObject({
      count: 0,
      firstAt: null,
      hint: expect.stringContaining("onPublished is 'archive'"),
    });
    expect(await admin.replay({ publishedFrom: FROM })).toMatchObject({ done: 0, skipped: 0, outcome: 'done' });
  });

  it('inserts no more a second than it may', async () => {
    await start();
    await publish(many(9));
    await start({ relay: false });
    const begun = performance.now();
    const seen: number[] = [];
    const progress = ({ done }: ReplayProgress): void => void seen.push(done);
    const report = await admin.replay({ publishedFrom: FROM }, { perSecond: 4, progress });
    expect(report.done).toBe(9);
    expect(seen).toEqual([4, 8, 9]);
    expect(performance.now() - begun).toBeGreaterThanOrEqual(1_990);
  });

  it('goes on where it ended, whatever ended it: each message comes once', async () => {
    await start();
    const ids = await publish(many(11, { key: 'k' }));
    await start({ relay: false });
    const abort = new AbortController();
    const quick = { chunkSize: 3, perSecond: Infinity };
    const first = await admin.replay(
      { publishedFrom: FROM, key: 'k' },
      { ...quick, signal: abort.signal, progress: () => abort.abort() },
    );
    expect(first).toMatchObject({ done: 3, outcome: 'aborted' });
    const resume = first.auditId;
    expect(await admin.replay({ resume }, { dryRun: true })).toMatchObject({ count: 8 });
    const thrown = new Error('it is dead');
    const dies = (): never => {
      throw thrown;
    };
    await expect(admin.replay({ resume }, { ...quick, progress: dies })).rejects.toBe(thrown);
    expect((await admin.audit()).entries).toMatchObject([{ outcome: 'failed', done: 6, error: 'it is dead' }]);
    // As one whose process was killed.
    await sql.query('update outbox_audit set outcome = null, ended_at = null');
    await publish([]); // what is published later is no part of it
    expect(await admin.replay({ resume }, quick)).toEqual({ auditId: resume, done: 5, skipped: 0, outcome: 'done' });
    expect(await ready()).toEqual(ids);
    expect((await admin.audit()).entries).toMatchObject([{ id: resume, outcome: 'done', done: 11, error: null }]);
    await expect(admin.replay({ resume })).rejects.toMatchObject({ code: 'INVALID_MESSAGE' });
  });

  it('refuses while messages wait beside the archive, and then goes on', async () => {
    const app = await start();
    const ids = await publish(many(2, { key: 'k' }));
    const maintainer = app.get(OutboxPartitionMaintainer);
    await maintainer.convert({ period: 'day' });
    const moving = { code: 'ARCHIVE_MOVING', message: expect.stringMatching(/^replay: messages wait beside/) };
    await expect(admin.replay({ publishedFrom: FROM }, { dryRun: true })).rejects.toMatchObject(moving);
    await expect(admin.replay({ publishedFrom: FROM })).rejects.toMatchObject(moving);
    const [entry] = (await admin.audit()).entries;
    expect(entry).toMatchObject({
      done: 0,
      outcome: 'failed',
      error: expect.stringContaining('replay: messages wait beside'),
    });
    await maintainer.runOnce({ period: 'day' });
    transport.all.length = 0;
    expect(await admin.replay({ resume: entry?.id as string })).toMatchObject({ done: 2, outcome: 'done' });
    await until(() => transport.all.length === 2);
    expect(transport.of('k')).toEqual(ids);
  });

  it('finds ids whose time is ahead of the clock of the database', async () => {
    await start();
    const minutes = (n: number): string => uuidV7At(Date.now() + n * 60_000);
    const ids = [minutes(5), minutes(50)];
    await publish(ids.map((id) => ({ id })));
    await start({ relay: false });
    expect(await admin.replay({ ids }, { dryRun: true })).toMatchObject({ count: 2 });
  });

  it('is ended from elsewhere, and taken over by who goes on with it', async () => {
    await start();
    const count = 200; // so many that the others come in the middle, however late they are
    const ids = await publish(many(count, { key: 'k' }));
    await start({ relay: false });
    const others: Promise<unknown>[] = [];
    const stop = ({ auditId }: ReplayProgress): void => {
      if (others.length === 0) others.push(admin.stop(auditId));
    };
    const first = await admin.replay({ publishedFrom: FROM }, { chunkSize: 1, pause: '100ms', progress: stop });
    expect(await Promise.all(others)).toEqual([true]);
    expect(first.outcome).toBe('aborted');
    const taken: Promise<{ done: number; outcome: string }>[] = [];
    const take = ({ auditId: resume }: ReplayProgress): void => {
      if (taken.length === 0) taken.push(admin.replay({ resume }));
    };
    const second = await admin.replay({ resume: first.auditId }, { chunkSize: 1, pause: '200ms', progress: take });
    expect(second.outcome).toBe('aborted');
    const [third] = await Promise.all(taken);
    expect(third).toMatchObject({ outcome: 'done', done: count - first.done - second.done });
    expect(await ready()).toEqual(ids);
    expect((await admin.audit()).entries).toMatchObject([{ done: count, outcome: 'done' }]);
  });

  it('leaves out what a replay published, what is parked under its id, and transports that are gone', async () => {
    const other = new KeepingTransport();
    await start({ transports: { default: transport, other }, defaultTransport: 'default' });
    const [one = '', two = '', three = ''] = await publish([{}, {}, { transport: 'other' }]);
    await start();
    transport.refuses = true;
    expect(await admin.replay({ ids: [one] })).toMatchObject({ done: 1 });
    await until(async () => (await outbox.stats()).total.dead === 1);
    transport.refuses = false;
    expect(await admin.replay({ publishedFrom: FROM }, { dryRun: true })).toMatchObject({ count: 2, skipped: 1 });
    // `one` is dead, and `three` goes nowhere.
    expect(await admin.replay({ publishedFrom: FROM })).toMatchObject({ done: 1, skipped: 2 });
    await until(async () => (await archived()) === 4);
    expect(await admin.replay({ ids: [two] }, { dryRun: true })).toMatchObject({ count: 1, skipped: 1 });
    const all = { ids: [two], includeReplays: true };
    expect(await admin.replay(all, { dryRun: true })).toMatchObject({ count: 2, skipped: 0 });
    const named = { publishedFrom: FROM, transport: 'other' };
    await expect(admin.replay(named)).rejects.toMatchObject({ code: 'UNKNOWN_TRANSPORT' });
    expect(other.ids).toEqual([three]);
  });

  if (kind !== 'postgres') {
    it.each(['key', 'strict'] as const)(
      'leaves a key of bytes that are no text as it is: ordering %s',
      async (ordering) => {
        await start({ ordering, database: { setup: 'create' }, relay: false });
        const keys = ['ff01', 'fe', '6b'];
        for (const hex of keys)
          await sql.query(
            `insert into outbox_archive (seq, topic, type, \`key\`, payload) values (1, 't', 't', x'${hex}', '1')`,
          );
        const written = 'insert into outbox_ready (topic, `key`, payload) values';
        await sql.query(`${written} ${keys.map((hex) => `('theirs', x'${hex}', '1')`).join(', ')}`);
        expect(await admin.replay({ publishedFrom: FROM })).toMatchObject({ done: 3 });
        const places = await sql.query(
          'select lower(hex(`key`)) as k, count(*) as n, count(distinct bucket) as buckets from outbox_ready group by 1 order by 1',
        );
        expect(places.map(({ k, n, buckets }: Record<string, unknown>) => [k, Number(n), Number(buckets)])).toEqual(
          [...keys].sort().map((hex) => [hex, 2, 1]),
        );
      },
    );
  }

  it('claims no dedup key again, and a message that is encrypted can still be read', async () => {
    await start({ encryption: new SealingEncryption() });
    const headers = { tenant: 'acme' };
    const ids = await publish(many(2, { headers, payload: { secret: 1 }, dedupKey: 'once' }).slice(0, 1));
    await publish([{ headers: {}, payload: { secret: 2 } }]);
    transport.all.length = 0;
    expect(await admin.replay({ publishedFrom: FROM })).toMatchObject({ done: 2 });
    await until(() => transport.all.length === 2);
    const bodyOf = new Map(transport.all.map(({ id, body }) => [id, JSON.parse(body) as unknown]));
    expect([...bodyOf.values()]).toEqual(expect.arrayContaining([{ secret: 1 }, { secret: 2 }]));
    expect(bodyOf.get(ids[0] as string)).toEqual({ secret: 1 });
    const [first] = transport.all.filter(({ id }) => id === ids[0]);
    expect(first?.headers).toEqual({ tenant: 'acme', 'replay-audit-id': '1' });
    expect((await outbox.stats()).total.dead).toBe(0);
  });

  it.each([
    ['strict', 'buckets'],
    ['global', 'leader'],
    ['none', 'rowLock'],
  ] as const)('keeps to an order that is %s, with %s', async (ordering, coordination) => {
    const options = { ordering, coordination, database: { setup: 'create' } } as Partial<OutboxOptions>;
    await start(options);
    const ids = await publish(Array.from({ length: 6 }, (_, n) => ({ key: `k${n % 2}` })));
    await publishedAt(ids);
    await sql.query('update outbox_archive set bucket = 77'); // of another number of buckets: today's are taken
    transport.all.length = 0;
    expect(await admin.replay({ publishedFrom: at(0) }, { chunkSize: 2 })).toMatchObject({ done: 6 });
    await until(() => transport.all.length === 6);
    const sent = transport.all.map(({ id }) => id);
    if (ordering === 'none') expect([...sent].sort()).toEqual([...ids].sort());
    else if (ordering === 'global') expect(sent).toEqual(ids);
    else expect([transport.of('k0'), transport.of('k1')]).toEqual([0, 1].map((k) => ids.filter((_, n) => n % 2 === k)));
  });

  it('refuses what it does not know, and then writes nothing', async () => {
    await start({ relay: false });
    const refused = async (work: Promise<unknown>, text: RegExp | string): Promise<void> =>
      expect(work).rejects.toMatchObject({ code: 'INVALID_MESSAGE', message: expect.stringMatching(text) });
    const window = { publishedFrom: FROM };
    await refused(admin.replay({}), 'neither ids nor publishedFrom is given');
    await refused(admin.replay({ type: 'a' }), 'nothing replays a whole archive by accident');
    await refused(admin.replay({ publishedUntil: FROM }), 'publishedFrom is missing');
    await refused(admin.replay({ publishedFrom: at(1), publishedUntil: at(1) }), 'must be before publishedUntil');
    await refused(admin.replay({ publishedFrom: '2026' } as never), 'publishedFrom must be a Date');
    await refused(admin.replay({ publishedFrom: new Date(NaN) }), 'publishedFrom is a Date without a time');
    await refused(admin.replay({ ...window, kye: 'k' } as never), "unknown field 'kye'. Did you mean 'key'?");
    await refused(admin.replay({ ids: [] }), 'ids must be an array');
    await refused(admin.replay({ ids: ['x'] }), 'is not a message id: a UUID has 36 characters');
    await refused(admin.replay({ ids: many(501).map(() => uuidV7()) }), 'more than 500');
    await refused(admin.replay({ ...window, includeReplays: 1 } as never), 'includeReplays must be');
    await refused(admin.replay({ ...window, resume: '1' }), 'so publishedFrom must be left out');
    await refused(admin.replay({ resume: 'x' }), 'resume must be');
    await refused(admin.replay({ resume: '7' }), 'there is no action 7');
    await refused(admin.replay(window, { perSecond: 0 }), 'perSecond must be');
    await refused(admin.replay(window, { perSeconds: 1 } as never), "Did you mean 'perSecond'?");
    await refused(admin.replay(window, { dryRun: 1 } as never), 'dryRun must be');
    await expect(admin.replay({ ...window, transport: 'nowhere' })).rejects.toMatchObject({
      code: 'UNKNOWN_TRANSPORT',
    });
    expect((await admin.audit()).entries).toEqual([]);
    const { auditId } = await admin.release('k');
    await refused(admin.replay({ resume: auditId }), 'is no replay but a release');
  });
});
