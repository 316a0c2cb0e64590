import type { PublishResult, OutboxStore } from '../../lib/index.js';
import { PUBLISHED } from '../../lib/transports/transport.js';
import type { FetchResult } from '../../lib/store/ready-store.js';
import { gate } from '../support/transport-relay.js';
import { createHarness, ScriptedTransport, wrapped, type Harness } from '../support/relay.js';
import { until } from '../support/until.js';
import type { DatabaseKind } from '../support/services.js';
import { operatorOf } from '../support/operator.js';

const text = (value: string | number) => Buffer.from(String(value));
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

/** The order of what is parked, on a real database, with a transport that the test commands. */
export function describeOrder(kind: DatabaseKind): void {
  let harness: Harness;
  afterEach(() => harness?.close());

  describe.each(['key', 'strict', 'global'] as const)('ordering %s', (ordering) => {
    // In a global order the key says nothing.
    const [one, other] = ordering === 'global' ? ['a', null] : ['a', 'a'];
    const place = ordering === 'global' ? { bucket: 0 } : {};
    const blocked = async () => (await harness.store.admin.stats())[0]?.blocked;
    const fallsDue = (id: string) => {
      const now = kind === 'postgres' ? 'now()' : 'utc_timestamp(6)';
      return harness.dataSource.query(`update outbox_parked set due_at = ${now} where id = '${id}'`);
    };

    it.each(['waits', 'is dead and blocks'])('what falls due stays behind a message that %s', async (how) => {
      const retry =
        how === 'waits' ? { initial: 3_600_000, max: 3_600_000, jitter: 'none' as const } : { maxAttempts: 1 };
      harness = await createHarness(kind, { ordering, pollInterval: 50, retry });
      const transport = new ScriptedTransport();
      transport.behave = (message) => (String(message.payload) === '1' ? rejected() : PUBLISHED);
      const { dispatcher, hooks } = harness.relay({ default: transport });
      const [third] = await harness.enqueue([{ ...place, key: one, payload: text('3'), delay: 3_600_000 }]);
      const [first] = await harness.enqueue([{ ...place, key: one, payload: text('1') }]);
      await dispatcher.start();
      await hooks.until(how === 'waits' ? 'retried' : 'dead');
      await harness.enqueue([{ ...place, key: other, payload: text('2'), delay: 1 }]);
      await until(async () => (await blocked()) === 1 || transport.published.length > 0);
      await fallsDue(third as string);
      await until(async () => (await blocked()) === 2 || transport.published.length > 0);
      expect(transport.texts).toEqual([]);
      transport.behave = () => PUBLISHED;
      await operatorOf(harness.store).requeue({ ids: [first as string] });
      await transport.until(() => transport.published.length === 3);
      expect(transport.texts).toEqual(['1', '2', '3']);
    });

    it('what falls due behind a message that is given up and does not block goes on', async () => {
      harness = await createHarness(kind, { ordering, onDead: 'skip', pollInterval: 50, retry: { maxAttempts: 1 } });
      const transport = new ScriptedTransport();
      transport.behave = (message) => (String(message.payload) === '1' ? rejected() : PUBLISHED);
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await harness.enqueue([{ ...place, key: one, payload: text('1') }]);
      await dispatcher.start();
      await hooks.until('dead');
      await harness.enqueue([{ ...place, key: other, payload: text('2'), delay: 1 }]);
      await transport.until(() => transport.published.length === 1);
      expect(transport.texts).toEqual(['2']);
    });

    it('messages that were requeued keep their order, also when the first of them fails again', async () => {
      const retry = { initial: 200, max: 200, maxAttempts: 2 };
      harness = await createHarness(kind, { ordering, onDead: 'skip', pollInterval: 50, retry });
      const transport = new ScriptedTransport();
      transport.behave = rejected;
      const messages = [1, 2, 3].map((each) => ({ ...place, key: each === 2 ? other : one, payload: text(each) }));
      const ids = await harness.enqueue(messages);
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await dispatcher.start();
      await hooks.until('dead', 3);
      await dispatcher.stop();
      await operatorOf(harness.store).requeue({ ids });
      let failures = 1;
      transport.behave = (message) => (String(message.payload) === '1' && failures-- > 0 ? rejected() : PUBLISHED);
      await harness.relay({ default: transport }).dispatcher.start();
      await transport.until(() => transport.published.length === 3);
      expect(transport.texts).toEqual(['1', '2', '3']);
    });
  });

  it('a scheduled message gets its turn in a global order, however much is ready', async () => {
    harness = await createHarness(kind, { ordering: 'global', batchSize: 10, pollInterval: 50 });
    const transport = new ScriptedTransport();
    const BACKLOG = 4_000;
    const backlog = Array.from({ length: BACKLOG }, (_, i) => i);
    await harness.enqueue(backlog.map((i) => ({ bucket: 0, payload: text(i) })));
    const looks = lookedForDue();
    transport.behave = async (message) => {
      if (String(message.payload) === '50') {
        await harness.enqueue([{ bucket: 0, payload: text('scheduled'), delay: 1 }]);
        await looks.next();
      }
      return PUBLISHED;
    };
    await harness.relay({ default: transport }, {}, looks).dispatcher.start();
    await transport.until(() => transport.published.length === BACKLOG + 1, 120_000);
    const { texts } = transport;
    expect(texts.indexOf('scheduled')).toBeLessThan(BACKLOG / 2);
    expect(texts.filter((each) => each !== 'scheduled').map(Number)).toEqual(backlog);
  });

  it('what falls due, and what is requeued, gets its turn in a key that is never idle', async () => {
    harness = await createHarness(kind, { onDead: 'skip', pollInterval: 50, retry: { maxAttempts: 1 } });
    const transport = new ScriptedTransport();
    const read = new Set<string>();
    const looks = lookedForDue();
    const wrapStore = (store: OutboxStore): OutboxStore =>
      looks.wrapStore(wrapped(store, { fetch: async (request) => noted(await store.ready.fetch(request), read) }));
    const { dispatcher, hooks } = harness.relay({ default: transport }, {}, { wrapStore });
    transport.behave = rejected;
    const [dead] = await harness.enqueue([{ key: 'hot', payload: text('requeued') }]);
    await dispatcher.start();
    await hooks.until('dead');

    const [WAITING, MOST] = [10, 200];
    let last = 0;
    const next = async (count: number) => {
      const payloads = Array.from({ length: count }, () => text((last += 1)));
      const ids = await harness.enqueue(payloads.map((payload) => ({ key: 'hot', payload })));
      dispatcher.nudge();
      await until(() => ids.every((id) => read.has(id)), 60_000, 2);
    };
    const begun = gate();
    transport.behave = async ({ payload }) => {
      await begun.opened;
      if (String(payload) === '5') {
        await harness.enqueue([{ key: 'hot', payload: text('scheduled'), delay: 1 }]);
        await operatorOf(harness.store).requeue({ ids: [dead as string] });
        await looks.next();
      }
      if (last < MOST) await next(1);
      return PUBLISHED;
    };
    await next(WAITING);
    begun.open();
    await transport.until(() => transport.published.length === MOST + 2, 60_000);
    const { texts } = transport;
    for (const each of ['scheduled', 'requeued']) expect(texts.indexOf(each)).toBeLessThan(MOST / 2);
    const others = texts.filter((each) => /\d/.test(each));
    expect(others).toEqual(Array.from({ length: MOST }, (_, i) => String(i + 1)));
  });
}

/** Where the count of what goes out says whether something had its turn, what goes out waits for a look at what is due. */
function lookedForDue(): { wrapStore(store: OutboxStore): OutboxStore; next(): Promise<void> } {
  let waiting: (() => void)[] = [];
  return {
    wrapStore: (store) =>
      wrapped(store, {
        due: async (...call) => {
          const since = waiting;
          waiting = [];
          const found = await store.parked.due(...call);
          for (const resolve of since) resolve();
          return found;
        },
      }),
    next: () => new Promise((resolve) => void waiting.push(resolve)),
  };
}

function noted(result: FetchResult, into: Set<string>): FetchResult {
  for (const { id } of result.messages) into.add(id);
  return result;
}
