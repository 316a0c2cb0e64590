import { randomBytes } from 'node:crypto';
import type { TestingModule } from '@nestjs/testing';
import { DataSource, type DataSourceOptions } from 'typeorm';
import {
  OutboxDispatcher,
  OutboxMessageError,
  OutboxModule,
  OutboxService,
  PUBLISHED,
  type OutboxMessage,
  type PlainMessage,
} from '../../../lib/index.js';
import { Applications, build, CollectingTransport, quiet, typeOrm } from '../../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { describeOnMysqlFamily } from '../../support/services.js';

const LONG = 'x'.repeat(256);
const HALF = 'half \ud83d of a pair';
const plain = (message: Partial<PlainMessage>): PlainMessage => ({ type: 'order.placed', payload: {}, ...message });

/** Each would be cut, changed or clamped by a server that is not strict. */
const REFUSED: readonly (readonly [string, Partial<PlainMessage>])[] = [
  ['topic of 256 characters', { topic: LONG }],
  ['key of 256 bytes in 128 characters', { key: 'é'.repeat(128) }],
  ['header that is no UTF-8', { headers: { h: HALF } }],
  ['version past 16 bits', { version: 32_768 }],
  ['delay of two centuries', { delay: 200 * 366 * 86_400_000 }],
];

class Keeping extends CollectingTransport {
  readonly messages: OutboxMessage[] = [];
  override async publish(batch: readonly OutboxMessage[]): Promise<(typeof PUBLISHED)[]> {
    this.messages.push(...batch);
    return batch.map(() => PUBLISHED);
  }
}

describeOnMysqlFamily('an application whose sessions are not strict', (kind) => {
  let database: TestDatabase;
  let app: TestingModule;
  let outbox: OutboxService;
  const transport = new Keeping();
  const applications = new Applications();
  /** One connection, so that every transaction is in the session that was set. */
  const one = (): TestDatabase => ({
    ...database,
    options: { ...database.options, poolSize: 1 } as DataSourceOptions,
  });
  const options = { relay: 'manual', transports: { default: transport }, maxPayloadBytes: 1024 * 1024 } as const;

  beforeAll(async () => {
    database = await createTestDatabase(kind);
    app = await applications.start(build([typeOrm(one()), OutboxModule.forRoot(quiet(options))]));
    await app.get(DataSource).query(`set session sql_mode = ''`);
    outbox = app.get(OutboxService);
  });
  afterAll(async () => {
    await applications.close();
    await database.drop();
  });
  const rows = async (): Promise<number> => {
    const query = 'select (select count(*) from outbox_ready) + (select count(*) from outbox_parked) as n';
    return Number((await app.get(DataSource).query<{ n: string }[]>(query))[0]?.n);
  };

  it('is cut by the server without a word', async () => {
    await app.get(DataSource).query(`insert into outbox_ready (topic, version) values (repeat('x', 300), 99999)`);
    const cut = await app.get(DataSource).query('select char_length(topic) as n, version from outbox_ready');
    expect(cut).toEqual([{ n: expect.anything(), version: 32_767 }]);
    expect(Number(cut[0].n)).toBe(255);
    await app.get(DataSource).query('delete from outbox_ready');
  });

  it.each(REFUSED)(
    'F5: is told of a %s before anything is written, and its transaction goes on',
    async (_, message) => {
      const before = await rows();
      await outbox.transaction(async () => {
        await expect(outbox.enqueue(plain(message))).rejects.toThrow(OutboxMessageError);
        await outbox.enqueue(plain({ topic: 'after' }));
      });
      expect(await rows()).toBe(before + 1);
      await app.get(OutboxDispatcher).drain();
    },
  );

  it('F5: stores everything that enqueue takes, up to the last byte', async () => {
    const wide = '💥'.repeat(255);
    const largest = {
      topic: wide,
      type: wide,
      contentType: `a/${'💥'.repeat(253)}`,
      key: '€'.repeat(85),
      version: 32_767,
      headers: { ['h'.repeat(255)]: '\u0001'.repeat(64 * 1024 - 255) },
      options: { any: { text: '€'.repeat(16_000) } },
      payload: randomBytes(options.maxPayloadBytes),
    };
    transport.messages.length = 0;
    const id = await outbox.transaction(() => outbox.enqueue({ ...largest, dedupKey: '€'.repeat(83) }));
    await app.get(OutboxDispatcher).drain();
    const [published] = transport.messages;
    expect(published).toMatchObject({ id, topic: wide, type: wide, key: largest.key, version: 32_767 });
    expect(published?.contentType).toBe(largest.contentType);
    expect({ ...published?.headers }).toEqual(largest.headers);
    expect(published?.options).toMatchObject(largest.options);
    expect(Buffer.compare(Buffer.from(published?.payload ?? []), largest.payload)).toBe(0);
    const again = await outbox.transaction(() => outbox.enqueue({ ...largest, dedupKey: '€'.repeat(83) }));
    expect(again).toBe(id); // the dedup key was not cut either
    const other = await outbox.transaction(() => outbox.enqueue({ ...largest, dedupKey: `${'€'.repeat(82)}xyz` }));
    expect(other).not.toBe(id);
  });

  it('F5: stores the last instant and the longest delay', async () => {
    const deliverAt = new Date(Date.UTC(9999, 11, 31));
    await outbox.transaction(() => outbox.enqueue([plain({ deliverAt }), plain({ delay: 100 * 366 * 86_400_000 })]));
    const due = await app
      .get(DataSource)
      .query<{ year: number }[]>('select cast(year(due_at) as signed) as year from outbox_parked order by due_at desc');
    const century = new Date().getUTCFullYear() + 100;
    expect(Number(due[0]?.year)).toBe(9999);
    expect(Math.abs(Number(due[1]?.year) - century)).toBeLessThanOrEqual(1);
    expect(await app.get(DataSource).query('select @@sql_mode as mode')).toEqual([{ mode: '' }]); // as it was throughout
  });
});
