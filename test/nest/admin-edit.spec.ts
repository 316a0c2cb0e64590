import type { TestingModule } from '@nestjs/testing';
import type { StoredRow } from '../../lib/store/inspect-store.js';
import { randomBytes } from 'node:crypto';
import { DataSource } from 'typeorm';
import {
  OutboxAdmin,
  OutboxDispatcher,
  OutboxModule,
  OutboxService,
  type MessageChanges,
  type OutboxOptions,
} from '../../lib/index.js';
import { RecordingTransport } from '../../lib/testing/index.js';
import { documentedEncryption } from '../security/documented-encryption.js';
import { describeOnEach } from '../support/services.js';
import { useApplications, build, quiet, typeOrm, until } from './support/app.js';

const SECRET = 'CANARY-4711';
const AesGcm = documentedEncryption();
const encryption = new AesGcm(new Map([['key-1', randomBytes(32)]]));

describeOnEach([], 'OutboxAdmin.edit, in an application', (kind) => {
  let transport: RecordingTransport;
  let app: TestingModule;
  let admin: OutboxAdmin;
  let outbox: OutboxService;
  const { applications, database } = useApplications(kind, 'test');
  beforeEach(async () => {
    transport = new RecordingTransport();
  });
  const start = async (options: Partial<OutboxOptions> = {}): Promise<void> => {
    const given = { relay: 'manual' as const, transports: { default: transport }, retry: { maxAttempts: 1 } };
    app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet({ ...given, ...options }))]));
    [admin, outbox] = [app.get(OutboxAdmin), app.get(OutboxService)];
  };
  const drain = () => app.get(OutboxDispatcher).drain();
  /** A message that no broker takes, as its payload says. */
  const poison = async (fields: object = {}): Promise<string> => {
    transport.fail({ final: true, when: ({ payload }) => String(payload).includes('poison') });
    const [id] = await outbox.enqueueOutsideTransaction([
      {
        type: 'order.placed',
        topic: 'orders',
        key: 'k',
        payload: { poison: SECRET },
        headers: { tenant: SECRET },
        ...fields,
      },
    ]);
    await drain();
    return id as string;
  };
  const state = async (id: string) => (await admin.find({ ids: [id] })).messages.map((one) => one.state);
  const refusal = (code: string, text: RegExp | string) => ({ code, message: expect.stringMatching(text) });

  it('restores what a message was before an edit, byte for byte, also ciphertext; and that is an edit, too', async () => {
    await start({ encryption });
    const id = await poison();
    const payload = async (): Promise<unknown> => {
      const [row] = (await admin.actions.inspect.find({ state: 'parked', ids: [id], after: null, limit: 1 })).rows;
      const { headers, options, preview } = (await admin.actions.inspect.content(row as StoredRow, 1_000)) ?? {};
      return { topic: row?.topic, headers, options, bytes: preview?.toString('hex') };
    };
    const original = await payload();
    const first = await admin.edit(id, { payload: { total: 1 }, topic: 'orders.v2', headers: { tenant: 'b' } });
    const second = await admin.edit(id, { payload: null });
    const between = await admin.restore(id, second.auditId);
    expect(between).toMatchObject({ id, differences: [{ what: 'payload', before: 'none' }], requeued: false });
    const preview = await admin.restore(id, first.auditId, { dryRun: true });
    expect(preview.differences.map(({ what }) => what)).toEqual(['topic', 'header tenant', 'payload']);
    const report = await admin.restore(id, first.auditId, { by: 'ann', requeue: true, expect: preview.revision });
    expect(report).toMatchObject({ differences: preview.differences, requeued: true });
    expect(await payload()).toEqual(original);
    expect(await state(id)).toEqual(['waiting']);
    const [last] = (await admin.audit()).entries;
    expect(last).toMatchObject({ id: report.auditId, action: 'edit', by: 'ann', outcome: 'done' });
    expect(JSON.parse(last?.filter as string)).toMatchObject({ ids: [id], restores: first.auditId });
    // What it was before the restoring is kept, too.
    await admin.restore(id, report.auditId);
    expect((await admin.show(id)).transports).toMatchObject([{ topic: 'orders.v2' }]);
    const other = await poison();
    await expect(admin.restore(other, first.auditId)).rejects.toMatchObject(
      refusal('INVALID_MESSAGE', /is no edit of this message/),
    );
    await expect(admin.restore(id, 'x')).rejects.toMatchObject({ code: 'INVALID_MESSAGE' });
    await admin.purge({ ids: [id] });
    await expect(admin.restore(id, first.auditId)).rejects.toMatchObject(refusal('INVALID_MESSAGE', /was purged/));
  });

  it('does not restore what an earlier message with the same id was', async () => {
    await start();
    const id = await poison();
    const { auditId } = await admin.edit(id, { payload: { poison: 2 } });
    for (const again of [{ key: 'other' }, { version: 2 }]) {
      await outbox.discard({ ids: [id] });
      await poison({ id, ...again });
      await expect(admin.restore(id, auditId, { requeue: true })).rejects.toMatchObject(
        refusal('INVALID_MESSAGE', /that edit was of an earlier message with this id/),
      );
      expect(await state(id)).toEqual(['dead']);
    }
    await outbox.discard({ ids: [id] });
    await poison({ id, topic: 'other' });
    expect(await admin.restore(id, auditId)).toMatchObject({ differences: [{ what: 'topic' }] });
  });

  it('a dead poison message is corrected, requeued and published as it is now, and what was blocked behind it follows', async () => {
    await start();
    const id = await poison();
    const behind = await outbox.enqueueOutsideTransaction({ type: 'order.paid', key: 'k', payload: 2 });
    const { transports } = await admin.show(id);
    const report = await admin.edit(
      id,
      { payload: { total: 1 }, topic: 'orders.v2', headers: { tenant: 'b', trace: 'c' } },
      { requeue: true, by: 'ann', expect: transports[0]?.revision as string },
    );
    expect(report).toEqual({
      ...{ id, transport: 'default', auditId: expect.any(String), requeued: true },
      revision: expect.stringMatching(/^[0-9a-f]{16}$/),
      differences: [
        { what: 'topic', before: 'orders', after: 'orders.v2' },
        { what: 'header tenant', before: '***', after: '***' },
        { what: 'header trace', before: null, after: '***' },
        { what: 'payload', before: '24 bytes', after: '11 bytes' },
      ],
    });
    await drain();
    expect(transport.published.map((one) => [one.id, one.topic, String(one.payload), { ...one.headers }])).toEqual([
      [id, 'orders.v2', '{"total":1}', { tenant: 'b', trace: 'c' }],
      [behind, 'order.paid', '2', {}],
    ]);
    const { entries } = await admin.audit();
    expect(entries).toMatchObject([{ id: report.auditId, action: 'edit', by: 'ann', done: 1, outcome: 'done' }]);
    expect(JSON.parse(entries[0]?.filter as string)).toEqual({
      ids: [id],
      transport: 'default',
      changed: ['topic', 'header tenant', 'header trace', 'payload'],
      requeue: true,
    });
  });

  it('the old version is kept in the database, and is shown without values of headers', async () => {
    await start();
    const id = await poison();
    await admin.edit(id, { payload: 'one', contentType: 'text/plain', headers: { tenant: null } }, { by: 'ann' });
    await admin.edit(id, { payload: Buffer.from([1, 2, 3]) }, { by: 'bob' });
    const plain = await admin.show(id);
    expect(plain.edits.map(({ by, before }) => [by, before])).toEqual([
        ['bob', { ...{ transport: 'default', topic: 'orders', type: 'order.placed', contentType: 'text/plain' }, headers: {}, payloadBytes: 3, options: null, contentEncoding: null, encryptionKeyId: null }],
        ['ann', { ...{ transport: 'default', topic: 'orders', type: 'order.placed', contentType: 'application/json' }, headers: { tenant: '***' }, payloadBytes: 24, options: null, contentEncoding: null, encryptionKeyId: null }],
      ]); // prettier-ignore
    expect(JSON.stringify([plain, await admin.audit()])).not.toMatch(SECRET);
    const { edits } = await admin.show(id, { payload: true });
    expect(edits.map(({ before }) => before?.payload?.text)).toEqual(['one', `{"poison":"${SECRET}"}`]);
    const kept: { kept_payload: Buffer }[] = await app
      .get(DataSource)
      .query('select kept_payload from outbox_audit order by audit_id');
    expect(kept.map((row) => String(row.kept_payload))).toEqual([`{"poison":"${SECRET}"}`, 'one']);
    expect(await state(id)).toEqual(['dead']);
  });

  it('of many changes the audit names the first ones', async () => {
    await start();
    // Invisible signs, which the audit shows as escapes: together more than a column of it has.
    const names = Array.from({ length: 900 }, (_, n) => `h${'\u202e'.repeat(15)}${n}`);
    const id = await poison({ headers: Object.fromEntries(names.map((name) => [name, ''])) });
    await admin.edit(id, { headers: Object.fromEntries(names.map((name) => [name, null])) });
    const [entry] = (await admin.audit()).entries;
    const { changed, ...rest } = JSON.parse(entry?.filter as string) as { changed: string[] };
    expect(changed).toHaveLength(20);
    expect(rest).toEqual({ ids: [id], transport: 'default', moreChanged: 880, requeue: false });
  });

  it('of two operators the second is refused, and looks again', async () => {
    await start();
    const id = await poison();
    const expected = (await admin.show(id)).transports[0]?.revision as string;
    expect(await admin.edit(id, { topic: 'mine' }, { dryRun: true, expect: expected })).toEqual({
      ...{ id, transport: 'default', revision: expected },
      differences: [{ what: 'topic', before: 'orders', after: 'mine' }],
    });
    const first = await admin.edit(id, { topic: 'a' }, { expect: expected });
    const second = admin.edit(id, { topic: 'b' }, { expect: expected });
    await expect(second).rejects.toMatchObject(refusal('EDIT_REFUSED', /has changed since .* show\(\)/));
    expect((await admin.show(id)).transports[0]).toMatchObject({ topic: 'a', revision: first.revision });
    // Both read the same version: one of them writes.
    const both = await Promise.allSettled(['c', 'd'].map((topic) => admin.edit(id, { topic })));
    expect(both.map(({ status }) => status).filter((status) => status === 'fulfilled').length).toBeGreaterThan(0);
    const done = both.filter(({ status }) => status === 'fulfilled').length;
    expect((await admin.audit()).entries).toHaveLength(1 + done);
  });

  it('what is held back for the pause of its topic goes out with another topic, and its key behind it', async () => {
    await start({ relay: true });
    await admin.pause({ transport: 'default', topic: 'prices', reason: 'audit' });
    const message = { type: 'a', key: 'k', payload: 1 };
    const [id = ''] = await outbox.enqueueOutsideTransaction([{ ...message, topic: 'prices' }]);
    const [behind = ''] = await outbox.enqueueOutsideTransaction([{ ...message, topic: 'orders' }]);
    await until(async () => {
      const { waiting, blocked } = (await outbox.stats()).total;
      return waiting === 1 && blocked === 1;
    });
    await admin.edit(id, { headers: { why: 'b' } });
    expect(await state(id)).toEqual(['waiting']);
    await admin.edit(id, { topic: 'orders' });
    await until(() => transport.published.length === 2);
    expect(transport.published.map((one) => [one.id, one.topic])).toEqual([
      [id, 'orders'],
      [behind, 'orders'],
    ]);
  });

  it('what was tried waits for its next attempt, also with another topic', async () => {
    await start({ retry: { initial: '1h', max: '1h' } });
    transport.fail({ when: () => true });
    const [id = ''] = await outbox.enqueueOutsideTransaction([{ type: 'a', topic: 'prices', payload: 1 }]);
    await drain();
    const due = async () => (await admin.find({ ids: [id] })).messages.map(({ dueAt }) => dueAt);
    const before = await due();
    await admin.edit(id, { topic: 'orders' });
    expect(await due()).toEqual(before);
  });

  it('refuses what does not wait, with a sentence that says why and what to do', async () => {
    await start({ onPublished: 'archive' });
    const [ready] = await outbox.enqueueOutsideTransaction([{ type: 'a', payload: 1 }]);
    const edit = (id: string) => admin.edit(id, { topic: 'x' });
    await expect(edit(ready as string)).rejects.toMatchObject(refusal('EDIT_REFUSED', /it is ready.* cancel it/));
    await drain();
    await expect(edit(ready as string)).rejects.toMatchObject(refusal('EDIT_REFUSED', /it is published/));
    const nobody = '01890a5d-ac96-774b-bcce-b302099a8057';
    await expect(edit(nobody)).rejects.toMatchObject(refusal('EDIT_REFUSED', /it is not there/));
    const [later] = await outbox.enqueueOutsideTransaction([{ type: 'a', payload: 1 }], { delay: '1h' });
    await admin.edit(later as string, { topic: 'y' });
    expect(await state(later as string)).toEqual(['scheduled']);
    const requeue = admin.edit(later as string, { topic: 'z' }, { requeue: true });
    await expect(requeue).rejects.toMatchObject(refusal('INVALID_MESSAGE', /is scheduled/));
    expect((await admin.audit()).entries).toHaveLength(1);
  });

  it('refuses bad input by name, and writes nothing', async () => {
    await start({
      maxPayloadBytes: 100,
      transports: { default: transport, other: new RecordingTransport() },
      defaultTransport: 'default',
    });
    const id = await poison({ transport: ['default'] });
    const wrong: readonly [changes: object, text: RegExp, code?: string, options?: object][] = [
      [{}, /there is no change/],
      [{ key: 'x' }, /key cannot be changed: its order and its bucket depend on it/],
      [{ id: 'x' }, /id cannot be changed/],
      [{ transport: 'other' }, /transport cannot be changed/],
      [{ options: {} }, /options cannot be changed/],
      [{ version: 2 }, /version cannot be changed/],
      [{ topik: 'x' }, /unknown field 'topik'.*topic/],
      [{ topic: '' }, /topic is empty/],
      [{ topic: 'x'.repeat(256) }, /topic has 256 characters/],
      [{ topic: 'orders' }, /already is as the changes say/],
      [{ headers: { nobody: null } }, /a header is to be removed that the message does not have/],
      [{ headers: { big: 'x'.repeat(70_000) } }, /headers have more than/],
      [{ headers: { n: 1 } }, /headers.n must be a string/],
      [{ payload: '{' }, /no valid JSON/, 'PAYLOAD_NOT_SERIALIZABLE'],
      [{ payload: 'x'.repeat(101), contentType: 'text/plain' }, /more than maxPayloadBytes/, 'PAYLOAD_TOO_LARGE'],
      [{ topic: 'x' }, /expect must be the revision/, 'INVALID_MESSAGE', { expect: '1' }],
      [{ topic: 'x' }, /requeue must be true or false/, 'INVALID_MESSAGE', { requeue: 1 }],
      [{ topic: 'x' }, /no transport 'nobody'/, 'UNKNOWN_TRANSPORT', { transport: 'nobody' }],
    ];
    for (const [changes, text, code = 'INVALID_MESSAGE', options = {}] of wrong)
      await expect(admin.edit(id, changes, options)).rejects.toMatchObject(refusal(code, text));
    await expect(admin.edit('1', { topic: 'x' })).rejects.toMatchObject(
      refusal('INVALID_MESSAGE', /is not a message id/),
    );
    expect((await admin.audit()).entries).toEqual([]);
  });

  it('of a message that waits in several transports one is named', async () => {
    const other = new RecordingTransport();
    await start({ transports: { default: transport, other }, defaultTransport: 'default' });
    const [id = ''] = await outbox.enqueueOutsideTransaction(
      [{ type: 'a', payload: 1, transport: ['default', 'other'] }],
      { delay: '1h' },
    );
    const changes: MessageChanges = { payload: 2 };
    await expect(admin.edit(id, changes)).rejects.toThrow(/several transports: 'default', 'other'\. Give transport/);
    expect(await admin.edit(id, changes, { transport: 'other' })).toMatchObject({ transport: 'other' });
    const shown = await admin.show(id, { payload: true });
    expect(shown.transports.map((one) => [one.transport, one.payload?.text])).toEqual([['default', '1'], ['other', '2']]); // prettier-ignore
  });

  it('S7: an encrypted message is encrypted again, whatever of it changes, and stays readable for the relay', async () => {
    await start({ encryption });
    const id = await poison();
    await admin.edit(id, { topic: 'elsewhere', headers: { tenant: 'b' } });
    const shown = await admin.show(id, { payload: true });
    expect(shown.transports[0]).toMatchObject({ topic: 'elsewhere', encryptionKeyId: 'key-1' });
    expect(shown.edits[0]?.before).toMatchObject({ topic: 'orders', encryptionKeyId: 'key-1' });
    transport.clear();
    await outbox.requeue({ ids: [id] });
    await drain();
    const published = (): string[][] => transport.published.map((one) => [one.topic, String(one.payload)]);
    expect(published()).toEqual([['elsewhere', `{"poison":"${SECRET}"}`]]);
    const other = await poison();
    transport.clear();
    await admin.edit(other, { payload: { total: 1 } }, { requeue: true });
    const [row]: { payload: Buffer }[] = await app.get(DataSource).query('select payload from outbox_parked');
    expect(String(row?.payload)).not.toMatch('total');
    await drain();
    expect(published()).toEqual([['orders', '{"total":1}']]);
    const kept: { kept: string; kept_payload: Buffer }[] = await app
      .get(DataSource)
      .query(`select kept, kept_payload from outbox_audit where action = 'edit'`);
    expect(kept.map((one) => one.kept + String(one.kept_payload)).join()).not.toMatch('poison');
    expect(kept.map((one) => one.kept_payload.length > 20)).toEqual([true, true]);
  });

  it('S7: without the keys an encrypted message is not edited', async () => {
    await start({ encryption });
    const id = await poison();
    await applications.close();
    await start();
    for (const changes of [{ payload: 1 }, { topic: 'x' }, { headers: { a: 'b' } }])
      await expect(admin.edit(id, changes)).rejects.toMatchObject(refusal('INVALID_MESSAGE', /encrypted .*--module/));
    expect((await admin.audit()).entries).toEqual([]);
  });
});
