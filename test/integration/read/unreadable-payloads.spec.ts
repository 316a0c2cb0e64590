import { randomBytes } from 'node:crypto';
import type { OutboxOptions, OutboxStore } from '../../../lib/index.js';
import type { NewMessage } from '../../../lib/outbox-message.js';
import { CANARY, SECRETS } from '../../security/canaries.js';
import { systemClock } from '../../../lib/time/clock.js';
import { createHarness, ScriptedTransport, wrapped, type Harness } from '../../support/relay.js';
import { takeChunks } from '../../support/lost-chunks.js';
import { describeOnEach, describeWith, dialectOf } from '../../support/services.js';
import { until } from '../../support/until.js';

const large = (text: string) => Buffer.alloc(100_000, text);
const small = (text: string) => Buffer.from(text);
const ROW_LOCKS = { ordering: 'none', coordination: 'rowLock' } as const;
const WAYS: [string, Partial<OutboxOptions>][] = [
  ['buckets', { buckets: 1 }],
  ['rowLock', { buckets: 1, ...ROW_LOCKS }],
];

/** No lease, and no publish, ends for time that is skipped. */
const PATIENT = { lease: '10m', publishTimeout: '2m' } as const;
/** A clock with which a test lets time pass at once: what is put off for so long is due then. */
function skippingClock() {
  let skipped = 0;
  return {
    clock: { ...systemClock, monotonic: () => systemClock.monotonic() + skipped },
    skip: (ms: number): void => void (skipped += ms),
  };
}

/** What a server says about one row. */
const ABOUT_ROW = {
  postgres: { code: 'XX000' },
  mysql: { code: 'ER_INVALID_JSON_CHARSET', errno: 3144, sqlState: '22032' },
};
/** Refuses to read this payload, and every payload with it. */
const refusing =
  (id: () => string | undefined, error: object) =>
  (store: OutboxStore): OutboxStore =>
    wrapped(store, {
      readPayloads: async (transport, messages) => {
        if (messages.some((message) => message.id === id()))
          throw Object.assign(new Error(`refused by the test: ${CANARY.header}`), error);
        return store.ready.readPayloads(transport, messages);
      },
    });

describeOnEach([], 'a large payload that cannot be read', (kind) => {
  let harness: Harness;
  afterEach(async () => {
    const told = await harness.secretsTold();
    await harness.close();
    expect(told).toEqual([]);
  });

  /** A relay at work on one that cannot be read, five neighbours, and what comes after them. */
  async function start(
    options: Partial<OutboxOptions>,
    maxAttempts: number,
    error: object,
    after: readonly Partial<NewMessage>[] = [],
  ) {
    harness = await createHarness(kind, { ...PATIENT, retry: { initial: 1, max: 1, maxAttempts }, ...options });
    const transport = new ScriptedTransport();
    const poison: { id?: string | undefined } = {};
    const wrapStore = refusing(() => poison.id, error);
    const { dispatcher, hooks } = harness.relay({ default: transport }, {}, { wrapStore });
    const ids = await harness.enqueue([
      { key: 'a', payload: large('p'), headers: SECRETS.headers },
      ...[1, 2, 3].map((n) => ({ key: `s${n}`, payload: small(`s${n}`) })),
      ...[1, 2].map((n) => ({ key: `l${n}`, payload: large(`l${n}`) })),
      ...after,
    ]);
    poison.id = ids[0];
    await dispatcher.start();
    return { transport, hooks, poison };
  }

  it.each(WAYS)(
    'D8: its neighbours are published, it dies by its attempts, and its key waits (%s)',
    async (_, options) => {
      const { transport, hooks, poison } = await start(options, 2, ABOUT_ROW[dialectOf(kind)], [
        { key: 'a', payload: small('behind') },
      ]);
      await hooks.until('dead', 1);
      const others = options.ordering === 'none' ? 6 : 5;
      await transport.until(() => transport.published.length === others);
      expect(hooks.of('dead')).toMatchObject([
        {
          id: poison.id,
          attempts: 2,
          error: expect.stringMatching(/^The payload could not be read from the database/),
        },
      ]);
      expect(new Set(transport.published.map(({ id }) => id)).size).toBe(others);
      expect(transport.published.every(({ attempts }) => attempts === 0)).toBe(true);
      expect(transport.texts.includes('behind')).toBe(options.ordering === 'none');
    },
  );

  if (kind === 'mysql') return; // the driver, and what it says of a lost connection, are MariaDB's
});

/** Stored out of line both, and the small one is read with its row. */
const SIZES = [100_000, 10_000];
/** Nothing that could be compressed. */
const secret = (size: number) => Buffer.concat([SECRETS.payload, randomBytes(size)]);

describeWith('postgres', 'a payload that PostgreSQL has lost', () => {
  let harness: Harness;
  afterEach(async () => {
    const told = await harness.secretsTold();
    await harness.close();
    expect(told).toEqual([]);
  });

  it.each(SIZES.flatMap((size) => WAYS.map(([name, options]) => ({ size, name, options }))))(
    'D8: its neighbours are published, its key waits, and it is published when it is back ($size bytes, $name)',
    async ({ size, options }) => {
      harness = await createHarness('postgres', { ...PATIENT, ...options });
      const [lost, other, last] = [1, 2, 3].map(() => secret(size));
      const [id] = await harness.enqueue([
        { key: 'a', payload: lost! },
        ...[1, 2, 3].map((n) => ({ key: `s${n}`, payload: small(`s${n}`) })),
        { key: 'l', payload: other! },
        { key: 'a', payload: small('behind') },
      ]);
      const chunks = await takeChunks(harness, id as string);
      const transport = new ScriptedTransport();
      const { clock, skip } = skippingClock();
      const { dispatcher, hooks } = harness.relay({ default: transport }, {}, { clock });
      await dispatcher.start();
      const others = options.ordering === 'none' ? 5 : 4;
      await transport.until(() => transport.published.length === others);
      await until(() => hooks.of('error').some(({ retryIn }) => retryIn === 10_000));
      await harness.enqueue([
        { key: 'later', payload: small('later') },
        { key: 'later', payload: last! },
      ]);
      await transport.until(() => transport.published.length === others + 2);
      expect(hooks.of('failed')).toEqual([]);
      expect(transport.texts.includes('behind')).toBe(options.ordering === 'none');
      await chunks.putBack();
      skip(10_000);
      await transport.until(() => transport.published.length === 8, 120_000);
      expect(transport.published.find((message) => message.id === id)?.payload).toEqual(lost);
    },
    300_000,
  );

  it('D8: dead letters are told beside one whose payload is lost', async () => {
    const told: string[] = [];
    const deadLetter = ({ message }: { message: { id: string } }): void => void told.push(message.id);
    harness = await createHarness('postgres', { buckets: 1, retry: { maxAttempts: 1 }, deadLetter });
    const ids = await harness.enqueue([1, 2].map(() => ({ payload: secret(10_000) })));
    const transport = new ScriptedTransport();
    transport.behave = () => ({ ok: false, blame: 'message', error: new Error('no') });
    const deaf = harness.relay({ default: transport }, { deadLetter: () => Promise.reject(new Error('nobody')) });
    await deaf.dispatcher.start();
    await deaf.hooks.until('dead', 2);
    await deaf.dispatcher.stop();
    await takeChunks(harness, ids[0] as string, 'outbox_parked');
    const { dispatcher, hooks } = harness.relay({ default: transport });
    await dispatcher.start();
    await until(() => told.length > 0);
    expect(told).toEqual([ids[1]]);
    expect(hooks.of('error')).toMatchObject([{ operation: 'deadLetter', error: { code: 'XX001' } }]);
  });
});
