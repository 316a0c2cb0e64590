import { outboxDeserializer } from '../../lib/consumer/index.js';
import { OutboxCleaner } from '../../lib/index.js';
import { countedHealth } from '../nest/support/app.js';
import { order, type useDebezium } from '../support/debezium-run.js';
import type { ReadRecord } from '../support/kafka.js';
import type { DatabaseKind } from '../support/services.js';
import { until } from '../support/until.js';

export const TEXT = { contentType: 'text/plain' };
const JSON_TYPE = { contentType: 'application/json' };
const BYTES = { contentType: 'application/octet-stream' };
/** One of each kind. Those of one key stay in this order. */
const ALL_KINDS = [
  { key: 'Größe', payload: { n: 1 }, version: 3, headers: { traceparent: '00-a-b-01', many: ['1', Buffer.of(255)] } },
  { key: null, payload: [2] },
  { key: 'key', payload: null },
  { key: 'key', payload: Buffer.of(0, 255, 10, 195, 40), contentType: 'image/png' },
  { key: 'key', payload: Buffer.alloc(0), ...BYTES },
  { key: 'key', payload: 'ü'.repeat(200_000), ...TEXT },
  { key: 'key', payload: Buffer.alloc(70_000, 255), ...BYTES },
  ...[0, 1, 2].map((partition) => ({
    key: 'spread',
    payload: partition,
    ...JSON_TYPE,
    options: { kafka: { partition } },
  })),
].map(order);

const header = (record: ReadRecord, name: string): string | null => {
  const value = record.headers?.[name];
  return value === undefined || value === null ? null : String(value);
};
export const idOf = (record: ReadRecord): string => header(record, 'id') as string;
const byId = (records: readonly ReadRecord[]): Map<string, ReadRecord> => new Map(records.map((r) => [idOf(r), r]));
export const payloads = (records: readonly ReadRecord[]): string[] => records.map(({ value }) => String(value));

/** What a row of the outbox becomes on its way through Debezium, on this database. */
export function describeDebezium(kind: DatabaseKind, start: ReturnType<typeof useDebezium>): void {
  it('Z1: routes every kind of message; what is different from kafka() is what the page says', async () => {
    const run = await start();
    const ids = await run.outbox.enqueueOutsideTransaction(ALL_KINDS);
    const routed = await run.routed(ids.length);
    const relayed = byId(await run.relayed(ids.length));
    expect(routed.map(idOf).sort()).toEqual([...ids].sort());
    for (const record of routed) compare(record, relayed.get(idOf(record)) as ReadRecord);
    const ofKey = routed.filter(({ key }) => String(key) === 'key');
    expect(ofKey.map(idOf)).toEqual(ids.slice(2, 7));
    const spread = (records: Iterable<ReadRecord>) =>
      new Set([...records].filter(({ key }) => String(key) === 'spread').map(({ partition }) => partition));
    expect([spread(routed).size, spread(relayed.values()).size]).toEqual([1, 3]);
    // What the relay deleted meanwhile made no record.
    await run.enqueue({ key: 'last', payload: null });
    expect(await run.routed(ids.length + 1)).toHaveLength(ids.length + 1);
  });

  it('Z2: routes in the order of the commits, also of transactions that overlapped', async () => {
    const run = await start();
    const [early, late] = [run.dataSource.createQueryRunner(), run.dataSource.createQueryRunner()];
    for (const [runner, n] of [
      [early, 1],
      [late, 2],
    ] as const) {
      await runner.startTransaction();
      await run.outbox.enqueue(order({ key: 'k', payload: { n } }), { manager: runner.manager });
    }
    await late.commitTransaction();
    await early.commitTransaction();
    await Promise.all([early.release(), late.release()]);
    expect(payloads(await run.routed(2))).toEqual(['{"n":2}', '{"n":1}']);
  });

  it('Z3: with a strict order routes each key in the order of its numbers', async () => {
    const run = await start({ options: { ordering: 'strict' } });
    const keys = ['a', 'b', 'c'];
    const writer = async (_: unknown, n: number): Promise<void> => {
      for (let i = 0; i < 5; i++)
        await run.dataSource.transaction(async (manager) => {
          const key = keys[(n + i) % keys.length] as string;
          await run.outbox.enqueue([order({ key, payload: { n, i } }), order({ key, payload: {} })], { manager });
        });
    };
    await Promise.all(Array.from({ length: 9 }, writer));
    const rows = (await run.source.admin.query('select id from outbox_ready order by seq')) as { id: string }[];
    expect(rows).toHaveLength(90);
    const at = new Map(rows.map(({ id }, index) => [id, index]));
    const routed = await run.routed(90);
    for (const key of keys) {
      const places = routed.filter((record) => String(record.key) === key).map((record) => at.get(idOf(record)));
      expect(places.length).toBeGreaterThan(20);
      expect(places).toEqual([...places].sort((a, b) => Number(a) - Number(b)));
    }
  });

  it('Z4: routes what is scheduled once the statement of the page has moved it, in the order of the due times', async () => {
    const run = await start();
    const at = (ms: number): Date => new Date(Date.now() + ms);
    const [cancelled] = await run.enqueue(
      { key: 'k', payload: 'cancelled', ...TEXT, deliverAt: at(-3_000) },
      { key: 'k', payload: 'third', ...TEXT, deliverAt: at(-1_000) },
      { key: 'k', payload: 'second', ...TEXT, deliverAt: at(-2_000) },
      { key: 'k', payload: 'never', ...TEXT, delay: '1h' },
      { key: 'k', payload: 'first', ...TEXT },
    );
    expect(payloads(await run.routed(1))).toEqual(['first']);
    expect(await run.outbox.cancel({ ids: [cancelled as string] })).toMatchObject({ changed: [cancelled] });
    await Promise.all([run.source.moveDue(), run.source.moveDue()]);
    expect(payloads(await run.routed(3))).toEqual(['first', 'second', 'third']);
    expect((await run.outbox.stats()).total).toMatchObject({ ready: 3, scheduled: 1 });
  });

  it('Z5: leaves the rows to somebody who deletes them; health takes them for waiting', async () => {
    const run = await start();
    await run.outbox.enqueueOutsideTransaction(order({ key: 'k', payload: {}, dedupKey: 'once' }));
    await run.routed(1);
    const reason = "1 message for 'default', which no live relay publishes.";
    expect(await countedHealth(run.outbox)).toMatchObject({
      status: 'down',
      reasons: [{ code: 'no_relay', text: reason }],
    });
    const year = kind === 'postgres' ? `interval '1 year'` : 'interval 1 year';
    await run.source.deleteOld();
    expect((await run.outbox.stats()).total.ready).toBe(1);
    for (const table of ['ready', 'dedup'])
      await run.source.admin.query(`update outbox_${table} set created_at = created_at - ${year}`);
    expect(await run.app.get(OutboxCleaner).runOnce()).toMatchObject({ dedup: 0 });
    await run.source.deleteOld();
    expect(await run.app.get(OutboxCleaner).runOnce()).toMatchObject({ dedup: 1 });
    expect((await run.outbox.stats()).total.ready).toBe(0);
    await until(async () => (await run.outbox.health()).status === 'up');
    expect(await run.countRouted()).toBe(1);
  });

  it('Z6: routes a message once for each of its transports, with one id', async () => {
    const run = await start();
    const [id] = await run.outbox.enqueueOutsideTransaction([
      order({ key: 'k', payload: {}, transport: ['default', 'second'] }),
    ]);
    expect((await run.routed(2)).map(idOf)).toEqual([id, id]);
  });

  it('Z9: takes over from a relay: routes what is in the table in its order, then what is committed since', async () => {
    const run = await start({ capture: false });
    for (const n of [1, 2, 3]) await run.enqueue({ key: 'k', payload: { n } }, { key: null, payload: { n: n + 10 } });
    await run.capture();
    await run.enqueue({ key: 'k', payload: { n: 4 } });
    const ofKey = (await run.routed(7)).filter(({ key }) => key !== null);
    expect(payloads(ofKey)).toEqual([1, 2, 3, 4].map((n) => `{"n":${n}}`));
  });

  it('Z11: routes what is encrypted as it is stored', async () => {
    const encrypt = (plaintext: Uint8Array) => ({ keyId: '1', ciphertext: Buffer.from(plaintext).reverse() });
    const decrypt = (): never => {
      throw new Error('Nobody decrypts here.');
    };
    const run = await start({ options: { encryption: { encrypt, decrypt } } });
    await run.enqueue({ key: 'k', payload: 'clear', ...TEXT });
    const [record] = (await run.routed(1)) as [ReadRecord];
    expect(String(record.value)).toBe('raelc');
    expect(Object.keys(record.headers ?? {})).not.toContain('encryption-key-id');
  });
}

/** Nearly the same record; how it differs is a row of the page's table each. */
function compare(routed: ReadRecord, relayed: ReadRecord): void {
  expect(routed.key).toEqual(relayed.key);
  expect(routed.value).toEqual(relayed.value);
  if (String(routed.key) !== 'spread' && routed.key !== null) expect(routed.partition).toBe(relayed.partition);
  for (const name of ['id', 'type', 'version', 'content-type'])
    expect(header(routed, name)).toBe(header(relayed, name));
  expect(Number(routed.timestamp)).toBeGreaterThanOrEqual(Date.parse(header(routed, 'time') as string));
  expect(new Date(header(routed, 'time') as string).toISOString()).toBe(header(relayed, 'time'));
  const own = header(relayed, 'traceparent');
  expect(JSON.parse(header(routed, 'headers') ?? 'null')).toEqual(
    own === null ? null : { traceparent: own, many: ['1', { b64: Buffer.of(255).toString('base64') }] },
  );
  const added = ['connectorLogicalName', 'taskId', 'connectorName'].map((name) => `__debezium.context.${name}`);
  const standard = ['id', 'type', 'version', 'content-type', 'time', 'headers'];
  expect(Object.keys(routed.headers ?? {}).sort()).toEqual([...standard, ...added].sort());
  expect(packet(routed)).toEqual(packet(relayed));
}

/** What a Nest microservice makes of it. */
function packet({ headers, ...record }: ReadRecord): unknown {
  const texts = Object.fromEntries(Object.entries(headers ?? {}).map(([name, value]) => [name, String(value)]));
  return outboxDeserializer().deserialize({ ...record, headers: texts, topic: 'orders' });
}
