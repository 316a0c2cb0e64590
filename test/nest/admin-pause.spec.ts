import { DataSource } from 'typeorm';
import { OutboxAdmin, OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { describeOnEach } from '../support/services.js';
import { useApplications, build, CollectingTransport, countedHealth, quiet, typeOrm, until } from './support/app.js';
import { codesOf, textsOf } from '../support/reasons.js';

describeOnEach([], 'A pause by OutboxAdmin, in two applications', (kind) => {
  const { applications, database } = useApplications(kind, 'test');
  const start = async (options: Partial<OutboxOptions>) => {
    const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet(options))]));
    return { admin: app.get(OutboxAdmin), outbox: app.get(OutboxService) };
  };
  const enqueue = (outbox: OutboxService, transports: string[]): Promise<string> =>
    outbox.enqueueOutsideTransaction({ type: 'a', key: 'k', payload: 1 }, { transport: transports });

  it('holds one transport back in all of them and no other, and tells it wherever one looks', async () => {
    const [main, other] = [new CollectingTransport(), new CollectingTransport()];
    const transports = { main, other };
    const options = { transports, defaultTransport: 'main' };
    const { outbox } = await start({ ...options, coordination: 'buckets' });
    const { admin, outbox: looking } = await start({ ...options, relay: false });
    const before = await enqueue(outbox, ['main', 'other']);
    await until(() => main.ids.includes(before) && other.ids.includes(before));

    const asked = { transport: 'main', reason: 'wrong \u001b[31mprices, amqp://a:pw@h', by: 'ann' };
    const paused = await admin.pause(asked);
    expect(paused).toEqual({ transport: 'main', topic: null, key: null, changed: true, auditId: expect.any(String) });
    expect(await admin.pause({ ...asked, reason: 'again' })).toMatchObject({ changed: false });
    const since = expect.any(Date);
    expect(await admin.pauses()).toEqual([
      { transport: 'main', topic: null, key: null, since, by: 'ann', reason: 'wrong \\u001b[31mprices, amqp://***@h' },
    ]);
    await until(async () => (await outbox.health()).transports['main']?.paused !== null);
    // Within a heartbeat; what is enqueued before it may still go out.
    await until(async () => {
      const id = await enqueue(outbox, ['main', 'other']);
      await until(() => other.ids.includes(id));
      return !main.ids.includes(id);
    });
    const held = await enqueue(outbox, ['main', 'other']);
    await until(() => other.ids.includes(held));
    expect(main.ids).not.toContain(held);

    for (const each of [outbox, looking]) {
      const health = await countedHealth(each, (told) => codesOf(told).includes('paused'));
      expect([health.status, codesOf(health)]).toEqual(['degraded', ['paused']]);
      expect(textsOf(health)).toEqual([
        expect.stringMatching(/^Transport 'main' is paused since \S+Z by ann: wrong \\u001b.31mprices, amqp:.{5}@h\.$/),
      ]);
    }
    expect((await admin.explain(held)).reasons).toMatchObject([
      { code: 'paused', transport: 'main', facts: { by: 'ann', reason: 'wrong \\u001b[31mprices, amqp://***@h' } },
    ]);

    expect(await admin.resume({ transport: 'main', by: 'bob' })).toMatchObject({ changed: true });
    await until(() => main.ids.includes(held));
    expect(main.ids).toEqual(other.ids);
    expect(await admin.pauses()).toEqual([]);
    expect((await admin.audit()).entries.map(({ action, by, done }) => [action, by, done])).toEqual([
      ['resume', 'bob', 1],
      ['pause', 'ann', 0],
      ['pause', 'ann', 1],
    ]);
  });

  it('holds a topic and a key back while the others go on, and says so of what waits behind them, too', async () => {
    const main = new CollectingTransport();
    const { admin, outbox } = await start({
      transports: { main },
      defaultTransport: 'main',
      coordination: 'buckets',
    });
    const [topic, key] = [
      { transport: 'main', topic: 'prices' },
      { transport: 'main', key: 'k7' },
    ];
    expect(await admin.pause({ ...topic, reason: 'wrong', by: 'ann' })).toMatchObject({ ...topic, key: null });
    await admin.pause({ ...key, reason: 'asked for', by: 'bob' });
    expect(await admin.pauses()).toMatchObject([
      { ...topic, key: null },
      { ...key, topic: null },
    ]);
    const send = (fields: { key: string; topic?: string }): Promise<string> =>
      outbox.enqueueOutsideTransaction({ type: 'a', payload: 1, ...fields });
    // Within a heartbeat; what is enqueued before it may still go out.
    await until(async () => {
      const id = await send({ key: 'k', topic: 'prices' });
      const other = await send({ key: 'free' });
      await until(() => main.ids.includes(other));
      return !main.ids.includes(id);
    });
    const held = await send({ key: 'k7' });
    const behind = await send({ key: 'k' });
    await until(async () => (await outbox.stats()).transports['main']?.ready === 0);
    const health = await countedHealth(outbox, ({ reasons }) => reasons.length === 3);
    expect([health.status, textsOf(health)]).toEqual([
      'degraded',
      [
        expect.stringMatching(/^Topic 'prices' of transport 'main' is paused since \S+Z by ann: wrong\.$/),
        expect.stringMatching(/^Key 'k7' of transport 'main' is paused since \S+Z by bob: asked for\.$/),
        expect.stringMatching(/^2 keys of 'main' are blocked by a message that failed or is paused, with 1 message/),
      ],
    ]);
    expect((await admin.explain(held)).reasons).toMatchObject([{ code: 'paused', facts: { by: 'bob' } }]);
    expect((await admin.explain(behind)).reasons).toMatchObject([
      { code: 'blocked' },
      { code: 'paused', facts: { by: 'ann' } },
    ]);
    expect((await admin.resume({ ...key, topic: 'prices' })).changed).toBe(false);
    await admin.resume(key);
    await until(() => main.ids.includes(held));
    expect(main.ids).not.toContain(behind);
    await admin.resume(topic);
    await until(() => main.ids.includes(behind));
    expect((await admin.audit()).entries.map(({ action, filter }) => [action, filter])).toContainEqual([
      'pause',
      JSON.stringify({ ...topic, reason: 'wrong' }),
    ]);
  });

  it('takes no more than a thousand topics and keys, and any number of times the same', async () => {
    const { admin } = await start({ transports: { main: new CollectingTransport() }, relay: false });
    const pause = (n: number) => admin.pause({ transport: 'main', key: `k${n}`, reason: 'x' });
    await pause(0);
    const copy = `insert into outbox_pauses (transport, topic, ${kind === 'postgres' ? 'key' : '`key`'}, actor, reason)`;
    const numbers = Array.from({ length: 999 }, (_, n) => `(0, '', 'k${n + 1}', 'ann', 'x')`);
    const dataSource = await new DataSource(database.options).initialize();
    await dataSource.query(`${copy} values ${numbers.join()}`);
    await dataSource.destroy();
    await expect(pause(1_000)).rejects.toMatchObject({
      code: 'INVALID_MESSAGE',
      message: expect.stringMatching('pause: 1000 topics and keys are paused already'),
    });
    expect((await pause(999)).changed).toBe(false);
    expect((await admin.pause({ transport: 'main', reason: 'all of it' })).changed).toBe(true);
  });

  it('pauses what is registered and no live relay has, and refuses any other name and wrong requests', async () => {
    const { admin } = await start({ transports: { main: new CollectingTransport() }, relay: false });
    await applications.close();
    const next = await start({ transports: { next: new CollectingTransport() }, relay: false });
    expect(await next.admin.pause({ transport: 'main', reason: 'it comes back' })).toMatchObject({ changed: true });
    expect(admin).toBeDefined();
    await expect(next.admin.pause({ transport: 'maim', reason: 'x' })).rejects.toMatchObject({
      code: 'UNKNOWN_TRANSPORT',
      message: expect.stringMatching(/pause: there is no transport 'maim'\. Did you mean 'main'\?/),
    });
    const wrong: readonly (readonly [unknown, RegExp])[] = [
      [{ transport: 'main' }, /pause: reason must be a string/],
      [{ transport: 'main', reason: '' }, /pause: reason is empty/],
      [{ transport: 'main', reason: 'x'.repeat(256) }, /pause: reason has 256 characters/],
      [{ transport: 'main', reason: 'x', by: '' }, /pause: by is empty/],
      [{ transport: 'main', reason: 'x', keys: ['k'] }, /pause: unknown field 'keys'/],
      [{ transport: 'main', reason: 'x', key: undefined }, /pause: key must be a string, not undefined/],
      [{ transport: 'main', reason: 'x', key: 'k'.repeat(256) }, /pause: key has 256 bytes/],
      [{ transport: 'main', reason: 'x', topic: '' }, /pause: topic is empty/],
      [{ reason: 'x' }, /pause: transport must be a string/],
      [null, /pause: the request must be an object, not null/],
    ];
    for (const [request, says] of wrong)
      await expect(next.admin.pause(request as never)).rejects.toMatchObject({
        code: 'INVALID_MESSAGE',
        message: expect.stringMatching(says),
      });
  });
});
