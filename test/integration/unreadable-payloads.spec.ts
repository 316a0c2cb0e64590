import { randomBytes } from 'node:crypto';
import type { NewMessage } from '../../lib/message.js';
import type { OutboxOptions } from '../../lib/outbox.options.js';
import type { OutboxStore } from '../../lib/store/outbox-store.js';
import { createHarness, ScriptedTransport, wrapped, type Harness } from '../support/relay.js';
import { describeOnBoth, describeWith } from '../support/services.js';
import { until } from '../support/until.js';

const large = (text: string) => Buffer.alloc(100_000, text);
const small = (text: string) => Buffer.from(text);
const ROW_LOCKS = { ordering: 'none', coordination: 'rowLock' } as const;
const WAYS: [string, Partial<OutboxOptions>][] = [
  ['buckets', { buckets: 1 }],
  ['rowLock', { buckets: 1, ...ROW_LOCKS }],
];

/** What a server says about one row, or about everything. */
const ABOUT_ROW = {
  postgres: { code: 'XX000' },
  mariadb: { code: 'ER_INVALID_JSON_CHARSET', errno: 3144, sqlState: '22032' },
};
const AWAY = {
  postgres: { code: '57P01' },
  mariadb: { code: 'PROTOCOL_CONNECTION_LOST' },
};
/** Refuses to read this payload, and every payload with it. */
const refusing =
  (id: () => string | undefined, error: object) =>
  (store: OutboxStore): OutboxStore =>
    wrapped(store, {
      readPayloads: async (transport, messages) => {
        if (messages.some((message) => message.id === id()))
          throw Object.assign(new Error('refused by the test'), error);
        return store.readPayloads(transport, messages);
      },
    });

describeOnBoth([], 'a large payload that cannot be read', (kind) => {
  let harness: Harness;
  afterEach(() => harness?.close());

  /** A relay at work on one that cannot be read, five neighbours, and what comes after them. */
  async function start(
    options: Partial<OutboxOptions>,
    maxAttempts: number,
    error: object,
    after: readonly Partial<NewMessage>[] = [],
  ) {
    harness = await createHarness(kind, { retry: { initial: 1, max: 1, maxAttempts }, ...options });
    const transport = new ScriptedTransport();
    const poison: { id?: string | undefined } = {};
    const wrapStore = refusing(() => poison.id, error);
    const { dispatcher, hooks } = harness.relay({ default: transport }, {}, { wrapStore });
    const ids = await harness.enqueue([
      { key: 'a', payload: large('p') },
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
      const { transport, hooks, poison } = await start(options, 2, ABOUT_ROW[kind], [
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

  it.each(WAYS)(
    'D8: while the connection goes with it, nobody is charged, and its neighbours are published (%s)',
    async (_, options) => {
      const { transport, hooks, poison } = await start(options, 1, AWAY[kind]);
      await transport.until(() => transport.published.length === 5);
      await hooks.until('error', 6);
      poison.id = undefined;
      await transport.until(() => transport.published.length === 6);
      expect(hooks.of('failed')).toEqual([]);
      expect(await harness.count('parked')).toBe(0);
    },
  );
});

describeWith('postgres', 'a large payload that PostgreSQL has lost', () => {
  let harness: Harness;
  afterEach(() => harness?.close());

  it.each(WAYS)(
    'D8: its neighbours are published, its key waits, and it is published when it is back (%s)',
    async (_, options) => {
      harness = await createHarness('postgres', options);
      const [lost, other, last] = [1, 2, 3].map(() => randomBytes(100_000)); // nothing that could be compressed
      const [id] = await harness.enqueue([
        { key: 'a', payload: lost! },
        ...[1, 2, 3].map((n) => ({ key: `s${n}`, payload: small(`s${n}`) })),
        { key: 'l', payload: other! },
        { key: 'a', payload: small('behind') },
      ]);
      const chunks = await takeChunks(harness, id as string);
      const transport = new ScriptedTransport();
      const { dispatcher, hooks } = harness.relay({ default: transport });
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
      await transport.until(() => transport.published.length === 8, 60_000);
      expect(transport.published.find((message) => message.id === id)?.payload).toEqual(lost);
    },
    120_000,
  );
});

/** Takes what is stored of one payload out of its table, as a disk does that loses it. */
async function takeChunks({ dataSource }: Harness, id: string): Promise<{ putBack(): Promise<void> }> {
  const [row] = (await dataSource.query(
    `select reltoastrelid::regclass::text as toast from pg_class where oid = 'outbox_ready'::regclass`,
  )) as { toast: string }[];
  const toast = row?.toast as string;
  // As a table like any other it can be written.
  const kind = (value: string) => `update pg_class set relkind = '${value}' where oid = '${toast}'::regclass`;
  const change = async (...statements: string[]): Promise<void> => {
    await dataSource.transaction(async (manager) => {
      for (const sql of ['set local allow_system_table_mods = on', kind('r'), ...statements, kind('t')])
        await manager.query(sql);
    });
  };
  const [chunk] = (await dataSource.query(
    `select t.chunk_id from ${toast} t, outbox_ready o
     where o.id = $1 and t.chunk_seq = 0 and substr(t.chunk_data, 1, 64) = substr(o.payload, 1, 64)`,
    [id],
  )) as { chunk_id: string }[];
  const its = `chunk_id = ${chunk?.chunk_id}`;
  await change(`create table lost as select * from ${toast} where ${its}`, `delete from ${toast} where ${its}`);
  await expect(dataSource.query('select md5(payload) from outbox_ready where id = $1', [id])).rejects.toMatchObject({
    code: 'XX001',
  });
  return { putBack: () => change(`insert into ${toast} select * from lost`) };
}
