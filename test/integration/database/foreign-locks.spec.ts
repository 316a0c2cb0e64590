import { PUBLISHED } from '../../../lib/transports/transport.js';
import { gate } from '../../support/transport-relay.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeOnEach } from '../../support/services.js';
import { until } from '../../support/until.js';
import { operatorOf } from '../../support/operator.js';

/** With row locks. A message is being published for as long as a test lasts, and its row is locked. */
const ROW_LOCK = { ordering: 'none', coordination: 'rowLock', lease: '1h', publishTimeout: '30m' } as const;

describeOnEach([], 'rows that somebody else holds locked', (kind) => {
  let harness: Harness;
  const opened: (() => unknown)[] = [];
  afterEach(async () => {
    for (const end of opened.splice(0)) await end();
    await harness?.close();
  });

  /** A transport that has what it was given until the test ends. */
  function slow(): ScriptedTransport {
    const transport = new ScriptedTransport();
    const end = gate();
    opened.push(() => end.open());
    transport.behave = async () => (await end.opened, PUBLISHED);
    return transport;
  }

  it('B12: one lease row is held by another session: all others are renewed', async () => {
    harness = await createHarness(kind, { buckets: 4 });
    const { store, dataSource } = harness;
    const leases = await store.leases.acquire({ owner: 'me', leaseMs: 60_000, transport: 0, limit: 4 });
    expect(leases).toHaveLength(4);
    const other = dataSource.createQueryRunner();
    opened.push(async () => (await other.rollbackTransaction(), await other.release()));
    await other.startTransaction();
    await other.query('select epoch from outbox_leases where transport = 0 and bucket = 2 for update');
    const renewed = await store.leases.renew('me', 60_000);
    expect(renewed.map(({ bucket }) => bucket).sort()).toEqual([0, 1, 3]);
  });

  it('B13: with row locks, a message that falls due while another instance publishes goes out beside it', async () => {
    harness = await createHarness(kind, ROW_LOCK);
    const [busy, idle] = [slow(), new ScriptedTransport()];
    const first = harness.relay({ default: busy }).dispatcher;
    await harness.enqueue([{ bucket: 2 }, { bucket: 5, delay: 3_600_000 }]);
    await first.start();
    await until(() => busy.attempted.length === 1);
    await harness.relay({ default: idle }).dispatcher.start();
    const now = kind === 'postgres' ? 'now()' : 'utc_timestamp(6)';
    await harness.dataSource.query(`update outbox_parked set due_at = ${now}`);
    await until(() => idle.published.length === 1);
  });

  it('B14: with row locks, more transports than 32 all publish', async () => {
    const names = Array.from({ length: 40 }, (_, n) => `t${n}`);
    const transports = Object.fromEntries(names.map((name) => [name, new ScriptedTransport()]));
    const options = { transports, defaultTransport: 't0', ordering: 'none', coordination: 'rowLock' } as const;
    harness = await createHarness(kind, options);
    await harness.relay(transports).dispatcher.start();
    await harness.enqueue(names.map((name) => ({ transport: harness.transportIds.get(name) as number })));
    await until(async () => (await harness.count('ready')) === 0);
  });

  it('O3: with row locks, an operator’s call passes what is being published, and says that it is too late', async () => {
    harness = await createHarness(kind, ROW_LOCK);
    const { store } = harness;
    const dead = new ScriptedTransport();
    dead.behave = async () => ({ ok: false, blame: 'message', final: true, error: new Error('no') });
    const first = harness.relay({ default: dead }).dispatcher;
    const letters = await harness.enqueue([{ type: 'x' }, { type: 'x' }]);
    await first.start();
    await until(async () => (await store.admin.stats())[0]?.dead === 2);
    await first.stop();
    const busy = slow();
    const [sent] = await harness.enqueue([{ type: 'x', delay: 0 }]);
    await harness.relay({ default: busy }).dispatcher.start();
    await until(() => busy.attempted.length === 1);
    expect(await operatorOf(store).cancel({ ids: [sent as string] })).toMatchObject({ changed: [], tooLate: [sent] });
    expect(await operatorOf(store).requeue({ type: 'x' })).toMatchObject({ done: letters.length });
  });
});
