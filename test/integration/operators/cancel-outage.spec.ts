import type { Outcome } from '../../../lib/testing/store-contract/harness.js';
import { rabbitmq } from '../../../lib/transports/rabbitmq/index.js';
import { RabbitMqObserver } from '../../support/rabbitmq.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeOnEach, requiredUrl } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';
import { operatorOf } from '../../support/operator.js';

/** MySQL has MariaDB's statements; fewer rounds show that its locks are the same. */
const ROUNDS = { postgres: 25, mariadb: 25, mysql: 8 };
const EACH = 24;

describeOnEach(['rabbitmq'], 'a cancel while the broker is away', (kind) => {
  let observer: RabbitMqObserver;
  let proxy: TcpProxy;
  let harness: Harness;
  let topic: string;
  beforeAll(async () => {
    observer = await RabbitMqObserver.connect(requiredUrl('rabbitmq'));
  });
  afterAll(() => observer.close());
  beforeEach(async () => {
    proxy = await TcpProxy.start(requiredUrl('rabbitmq'));
    harness = await createHarness(kind, { pollInterval: 50 });
    topic = await observer.queue();
  });
  afterEach(async () => {
    await harness?.close();
    await proxy.close();
  });

  async function relay() {
    const url = new URL(requiredUrl('rabbitmq'));
    url.host = `${proxy.host}:${proxy.port}`;
    const transport = await rabbitmq({ url: url.href }).create();
    const { dispatcher, hooks } = harness.relay({ default: transport }, {}, { random: () => 0 });
    await dispatcher.start();
    return hooks;
  }
  const enqueue = (count: number): Promise<string[]> =>
    harness.enqueue(Array.from({ length: count }, (_, n) => ({ topic, key: `k${n % 7}` })));
  const cancel = (ids: readonly string[]): Promise<Outcome> => operatorOf(harness.store).cancel({ ids });
  /** The circuit is open, and the leases say so. */
  const cancelled = (id: string): Promise<void> => until(async () => (await cancel([id])).changed.length === 1);
  async function leave(): Promise<void> {
    await proxy.refuse();
    proxy.cut();
  }

  it('O5: is done, and what was cancelled is not published when the broker is back', async () => {
    const hooks = await relay();
    const before = await enqueue(20);
    await observer.receivedAll(topic, before);
    await leave();
    await hooks.until('circuitOpened');
    const ids = await enqueue(200);
    await cancelled(ids[0] as string);
    const some = ids.filter((_, n) => n % 2 === 0);
    const report = await cancel(some);
    expect([[...report.changed].sort(), report.tooLate, report.notFound]).toEqual([
      some.slice(1).sort(),
      [],
      [some[0]],
    ]);
    const left = ids.filter((_, n) => n % 2 === 1);
    await proxy.accept();
    const found = await observer.receivedAll(topic, [...before, ...left]);
    expect(new Set(found.map(({ id }) => id))).toEqual(new Set([...before, ...left]));
    await until(async () => (await harness.count('ready')) === 0);
    const [late] = (await enqueue(1)) as [string];
    await observer.receivedAll(topic, [late]);
    expect((await cancel([late])).changed).toEqual([]);
  });

  it('O5: is done or too late while the broker comes back; nothing that is done is published', async () => {
    await relay();
    const done = new Set<string>();
    const others: string[] = [];
    for (let round = 0; round < ROUNDS[kind]; round += 1) {
      await leave();
      const [first, ...rest] = (await enqueue(EACH)) as [string, ...string[]];
      await cancelled(first);
      await proxy.accept();
      const isBack = observer.received(topic, others.length + 1);
      for (const id of rest) for (const each of (await cancel([id])).changed) done.add(each);
      others.push(...rest.filter((id) => !done.has(id)));
      // On and on until it is back: one at least comes too late.
      for (let isLate = false; !isLate;) {
        const [id] = (await enqueue(1)) as [string];
        isLate = (await cancel([id])).changed.length === 0;
        if (isLate) others.push(id);
        else done.add(id);
      }
      const [last] = (await enqueue(1)) as [string];
      others.push(last);
      await isBack;
      await observer.receivedAll(topic, others);
    }
    const found = new Set((await observer.received(topic, others.length)).map(({ id }) => id));
    expect([...done].filter((id) => found.has(id))).toEqual([]);
    expect(found).toEqual(new Set(others));
    expect(done.size).toBeGreaterThan(0);
    expect(others.length).toBeGreaterThan(ROUNDS[kind]);
  });
});

describeOnEach([], 'a cancel while a broker takes nothing', (kind) => {
  let harness: Harness;
  afterEach(() => harness?.close());

  it('O5: is done between two probes, and too late for what a probe sends', async () => {
    harness = await createHarness(kind, { pollInterval: 50, buckets: 1 });
    const transport = new ScriptedTransport();
    let answer: (() => void) | undefined;
    transport.behave = () =>
      new Promise((resolve) => {
        answer = () => resolve({ ok: false, blame: 'transport', error: new Error('not now') });
      });
    const { dispatcher } = harness.relay({ default: transport }, {}, { random: () => 0 });
    const ids = await harness.enqueue([{ key: 'a' }, { key: 'a' }, { key: 'a' }]);
    await dispatcher.start();
    const cancel = (id: string | undefined): Promise<Outcome> => operatorOf(harness.store).cancel({ ids: [id!] });
    for (const id of ids) {
      await until(() => answer !== undefined);
      for (const each of ids) expect((await cancel(each)).changed).toEqual([]);
      answer?.();
      answer = undefined;
      await until(async () => (await cancel(id)).changed.length === 1);
    }
    expect(transport.attempted.length).toBeGreaterThanOrEqual(ids.length);
    expect(await harness.count('ready')).toBe(0);
  });
});
