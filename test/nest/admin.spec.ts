// @tier gate
import { OutboxAdmin, OutboxModule, OutboxService, type OutboxOptions } from '../../lib/index.js';
import { uuidV7 } from '../../lib/message/uuid-v7.js';
import { describeOnEach } from '../support/services.js';
import { useApplications, build, MoodyTransport, OrderPlaced, quiet, typeOrm, until } from './support/app.js';
import { allFound } from './support/found.js';

const KEY = 'customer-4711';

describeOnEach([], 'OutboxAdmin, in an application', (kind) => {
  const { applications, database } = useApplications(kind, 'test');
  const start = async (transport: MoodyTransport, options: Partial<OutboxOptions>) => {
    const outbox = OutboxModule.forRoot(quiet({ transports: { default: transport }, ...options }));
    const app = await applications.start(build([typeOrm(database), outbox]));
    return { admin: app.get(OutboxAdmin), outbox: app.get(OutboxService) };
  };
  const enqueue = (outbox: OutboxService, key = KEY) => outbox.enqueueOutsideTransaction(new OrderPlaced(key));

  it('finds, shows and explains in a process that only enqueues', async () => {
    const { admin, outbox } = await start(new MoodyTransport(), { relay: false });
    expect(await allFound(admin)).toEqual([]);
    const id = await outbox.enqueueOutsideTransaction(
      {
        type: 'order.placed',
        topic: 'orders',
        key: KEY,
        payload: { orderId: KEY },
        headers: { 'x-token': 'canary' },
      },
      {},
    );
    const messages = await allFound(admin, { key: KEY, type: 'order.placed', youngerThan: '1h' });
    expect(messages).toMatchObject([
      { id, state: 'ready', transport: 'default', topic: 'orders', key: KEY, attempts: 0 },
    ]);
    expect(JSON.stringify([messages, await admin.show(id)])).not.toMatch(/canary|orderId/);
    const { transports } = await admin.show(id, { payload: true });
    expect(transports).toMatchObject([
      { id, headers: { 'x-token': '***' }, errors: [], payload: { text: `{"orderId":"${KEY}"}`, cut: false } },
    ]);
    const explanation = await admin.explain(id);
    expect(explanation).toMatchObject({ id, reasons: [{ code: 'no-relay', facts: { liveRelays: 0 } }] });
    expect(explanation.text).toBe("No live relay publishes to 'default'; 0 relays are alive.");
    const buckets = await admin.buckets();
    expect(buckets.reduce((sum, { ready }) => sum + ready, 0)).toBe(1);
    expect(buckets.every(({ lease, owner }) => lease === 'free' && owner === null)).toBe(true);
    const [nowhere, scheduled] = [
      uuidV7(),
      await outbox.enqueueOutsideTransaction(new OrderPlaced('later'), { delay: '1h' }),
    ];
    expect((await admin.explain(nowhere)).reasons).toMatchObject([{ code: 'not-found', transport: null }]);
    expect((await admin.explain(scheduled)).reasons.map(({ code }) => code)).toEqual(['scheduled', 'no-relay']);
  });

  it('names what blocks a key, groups the failures, and says who publishes a bucket', async () => {
    const transport = new MoodyTransport();
    const { admin, outbox } = await start(transport, { retry: { maxAttempts: 1, errorHistory: 3 } });
    const dead = await enqueue(outbox);
    await until(async () => (await outbox.stats()).total.dead === 1);
    const behind = await enqueue(outbox);
    await until(async () => (await outbox.stats()).total.blocked === 1);
    const blocked = await admin.explain(behind);
    expect(blocked.reasons).toMatchObject([{ code: 'blocked', facts: { behind: dead, behindState: 'dead' } }]);
    expect(blocked.text).toMatch(`It is blocked behind message ${dead} of its key, which is dead since 20`);
    const died = await admin.explain(dead);
    expect(died.reasons).toMatchObject([{ code: 'dead', facts: { attempts: 1, lastError: 'no' } }]);
    expect(died.text).toMatch(/^It is dead for 'default' since .*, after 1 attempt: no\.$/);
    expect((await admin.show(dead)).transports).toMatchObject([
      { state: 'dead', errors: [{ attempt: 1, error: 'no' }] },
    ]);
    expect(await admin.failures({ transport: 'default' })).toMatchObject({
      groups: [{ transport: 'default', type: 'order.placed', error: 'no', count: 1, dead: 1, exampleId: dead }],
      cut: false,
    });
    const buckets = await admin.buckets({ transport: 'default' });
    expect(buckets.every(({ lease, ownerIsAlive }) => lease === 'leased' && ownerIsAlive)).toBe(true);
    expect(buckets[0]?.place).toMatch(/ pid \d+$/);
    transport.refuses = false;
    await outbox.requeue({ ids: [dead] });
    await until(() => transport.ids.length === 2);
    await until(async () => (await admin.explain(behind)).reasons[0]?.code === 'not-found');
  });
});
