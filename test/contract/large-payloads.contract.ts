import { createHash } from 'node:crypto';
import type { OutboxMessage, PublishResult, OutboxStore } from '../../lib/index.js';
import type { RelayLoops } from '../../lib/relay/relay-loops.js';
import { PUBLISHED } from '../../lib/transports/transport.js';
import { gate } from '../support/transport-relay.js';
import { createHarness, ScriptedTransport, wrapped, type Harness } from '../support/relay.js';
import { until } from '../support/until.js';
import type { DatabaseKind } from '../support/services.js';

const MIB = 2 ** 20;
const payloadOf = (n: number, bytes: number): Buffer => Buffer.alloc(bytes, `${n} `);
const digestOf = (payload: Buffer | null): string => createHash('sha1').update(String(payload)).digest('hex');
const rejected = (): PublishResult => ({ ok: false, blame: 'message', error: new Error('no') });

/** What is decided about large messages, and cannot be written at once or in one statement. */
export function describeLargePayloads(kind: DatabaseKind): void {
  let harness: Harness;
  let open = (): void => undefined;
  afterEach(async () => {
    open();
    await harness?.close();
  });

  async function enqueue(count: number, bytes: number, keyOf: (n: number) => string | null): Promise<string[]> {
    const ids: string[] = [];
    for (let n = 0; n < count; n += 1)
      ids.push(...(await harness.enqueue([{ key: keyOf(n), payload: payloadOf(n, bytes) }])));
    return ids;
  }

  it.each(['was published', 'failed'] as const)(
    'D3: what %s keeps no payload in memory while it cannot be written down, and loses none',
    async (what) => {
      const retry = { initial: '1h', max: '1h', jitter: 'none' } as const;
      harness = await createHarness(kind, { buckets: 4, onPublished: 'archive', retry });
      const hung = gate();
      open = () => hung.open();
      const wrapStore = (store: OutboxStore): OutboxStore =>
        wrapped(store, {
          settle: (...call) => hung.opened.then(() => store.ready.settle(...call)),
          park: (...call) => hung.opened.then(() => store.ready.park(...call)),
        });
      const transport = new ScriptedTransport();
      transport.behave = () => (what === 'was published' ? PUBLISHED : rejected());
      const ids = await enqueue(20, MIB / 2, () => null);
      const { dispatcher } = harness.relay({ default: transport }, {}, { wrapStore });
      await dispatcher.start();
      const { settler } = (dispatcher.relays[0] as RelayLoops).relay;
      const unwritten = (): OutboxMessage[] => [
        ...settler.successes.waiting,
        ...settler.transitions.waiting.map((t) => t.message),
      ];
      await until(() => unwritten().length === ids.length);
      expect(transport.attempted).toHaveLength(ids.length);
      expect(unwritten().map(({ body }) => body?.length ?? 0)).toEqual(ids.map(() => 0));
      // Whoever published them may hold on to them.
      expect(transport.attempted.every(({ payload }) => payload?.length === MIB / 2)).toBe(true);
      open();
      await until(async () => (await harness.count('ready')) === 0);
      const rows = (await harness.dataSource.query(
        `select payload from outbox_${what === 'was published' ? 'archive' : 'parked'}`,
      )) as { payload: Buffer }[];
      const expected = ids.map((_, n) => digestOf(payloadOf(n, MIB / 2)));
      expect(rows.map(({ payload }) => digestOf(payload)).sort()).toEqual(expected.sort());
    },
  );

  it('D3: large messages behind one that fails are parked in order, a bounded number of bytes at a time', async () => {
    const patient = { lease: '30m', publishTimeout: '10m' } as const; // the verdict waits until all were read
    harness = await createHarness(kind, {
      ...patient,
      buckets: 1,
      batchBytes: 64 * MIB,
      retry: { initial: '1h', max: '1h' },
    });
    const calls: string[][] = [];
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        park: (owner, leases, entries) => {
          calls.push(entries.map(({ id }) => id));
          return store.ready.park(owner, leases, entries);
        },
      });
    const transport = new ScriptedTransport();
    const verdict = gate<PublishResult>();
    transport.behave = ({ key }) => (key === 'poison' ? verdict.opened : PUBLISHED);
    const ids = await enqueue(40, MIB, () => 'poison');
    await harness.enqueue([{ key: 'other' }]);
    const { dispatcher } = harness.relay({ default: transport }, {}, { wrapStore });
    await dispatcher.start();
    await transport.until(() => transport.published.length === 1); // so that all were read
    verdict.open(rejected());
    await until(async () => (await harness.count('parked')) === ids.length);
    expect(calls.flat()).toEqual(ids);
    expect(Math.max(...calls.map((call) => call.length))).toBeLessThanOrEqual(17); // 16 MiB, or one message more
    expect(transport.attempted).toHaveLength(2);
  });

  it('D3: writes that are too large for the server are made smaller until it takes them', async () => {
    const retry = { initial: '1h', max: '1h', jitter: 'none' } as const;
    harness = await createHarness(kind, { buckets: 1, onPublished: 'archive', retry });
    const tooMany = (rows: readonly unknown[]): void => {
      if (rows.length > 3) throw new Error('canceling statement due to statement timeout');
    };
    const wrapStore = (store: OutboxStore): OutboxStore =>
      wrapped(store, {
        park: async (owner, leases, entries) => (tooMany(entries), store.ready.park(owner, leases, entries)),
        settle: async (id, messages, then) => (tooMany(messages), store.ready.settle(id, messages, then)),
      });
    const transport = new ScriptedTransport();
    transport.behave = ({ key }) => (key === 'poison' ? rejected() : PUBLISHED);
    const ids = await enqueue(24, MIB / 4, (n) => (n % 2 === 0 ? 'poison' : null));
    const { dispatcher, hooks } = harness.relay({ default: transport }, {}, { wrapStore });
    await dispatcher.start();
    await until(async () => (await harness.count('ready')) === 0);
    expect(await harness.count('parked')).toBe(ids.length / 2);
    expect(await harness.count('archive')).toBe(ids.length / 2);
    expect(new Set(hooks.of('error').map(({ operation }) => operation))).toEqual(new Set(['park', 'settle']));
    expect(hooks.of('retried')).toHaveLength(1);
  });
}
