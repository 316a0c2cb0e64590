import { DataSource, type EntityManager } from 'typeorm';
import { OutboxModule, OutboxService } from '../../../lib/index.js';
import { Applications, build, quiet, typeOrm } from '../../nest/support/app.js';
import { createTestDatabase, type TestDatabase } from '../../support/databases.js';
import { ScriptedTransport } from '../../support/relay.js';
import { describeWith } from '../../support/services.js';

const REFUSED = { name: 'QueryFailedError', code: '40001' };
const SERIALIZABLE = { isolation: 'SERIALIZABLE' } as const;
/** As far as a COMMIT goes before it is one: what is staged is moved. */
const AS_COMMIT = 'set constraints all immediate';

describeWith('postgres', 'Serializable transactions on PostgreSQL', () => {
  const applications = new Applications();
  let database: TestDatabase;
  let transport: ScriptedTransport;
  let outbox: OutboxService;
  let dataSource: DataSource;
  beforeAll(async () => (database = await createTestDatabase('postgres')));
  afterEach(() => applications.close());
  afterAll(() => database.drop());

  const start = async (ordering: 'key' | 'strict'): Promise<void> => {
    transport = new ScriptedTransport();
    const options = { ordering, transports: { default: transport }, database: { prefix: `${ordering}_` } };
    const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet(options))]));
    [outbox, dataSource] = [app.get(OutboxService), app.get(DataSource)];
  };
  const enqueue = (key: string, text: string, manager?: EntityManager): Promise<string> =>
    outbox.enqueue({ type: 't', key, payload: Buffer.from(text) }, manager === undefined ? {} : { manager });
  /** `key:text` of what arrived, once so many have. */
  const arrived = async (count: number): Promise<string[]> => {
    await transport.until(() => transport.published.length >= count);
    return transport.published.map(({ key, payload }) => `${key}:${String(payload)}`);
  };
  const begin = async (): Promise<EntityManager> => {
    const runner = dataSource.createQueryRunner();
    await runner.startTransaction('SERIALIZABLE');
    return runner.manager;
  };
  const commit = async ({ queryRunner }: EntityManager): Promise<void> => {
    await queryRunner?.commitTransaction();
    await queryRunner?.release();
  };
  /** Each message has a key of its own. @param late what the second does once the others have committed. */
  const threeAtOnce = async (late: () => Promise<unknown> = async () => undefined): Promise<unknown> => {
    const [first, third] = [await begin(), await begin()];
    await enqueue('a', 'first', first);
    await first.query(AS_COMMIT);
    const second = async (manager: EntityManager): Promise<void> => {
      await enqueue('b', 'second');
      await manager.query(AS_COMMIT);
      await enqueue('c', 'third', third);
      await commit(third);
      await commit(first);
      await late();
    };
    return outbox.transaction(second, SERIALIZABLE).catch((error: unknown) => error);
  };
  /** As an application does. Answers how often it was refused. */
  const completed = async (work: (manager: EntityManager) => Promise<unknown>): Promise<number> => {
    for (let refused = 0; ; refused++) {
      try {
        await outbox.transaction(work, SERIALIZABLE);
        return refused;
      } catch (error) {
        if ((error as { code?: string }).code !== REFUSED.code) throw error;
      }
    }
  };

  it('may fail with 40001 at COMMIT where it is strict; run again, all is published', async () => {
    await start('strict');
    expect(await threeAtOnce()).toMatchObject(REFUSED);
    await completed(() => enqueue('b', 'second'));
    expect((await arrived(3)).sort()).toEqual(['a:first', 'b:second', 'c:third']);
  });

  it('fail in an enqueue just so, and publish nothing of what failed', async () => {
    await start('strict');
    let refused: unknown;
    const late = (): Promise<unknown> =>
      enqueue('d', 'late').catch((error: unknown) => {
        refused = error;
        throw error;
      });
    expect(await threeAtOnce(late)).toMatchObject(REFUSED);
    expect(refused).toMatchObject(REFUSED);
    await completed(() => enqueue('e', 'behind'));
    expect((await arrived(3)).sort()).toEqual(['a:first', 'c:third', 'e:behind']);
  });

  it('lose nothing and keep the order, when six writers at once run again what was refused', async () => {
    await start('strict');
    await dataSource.query(`create table counter as select unnest(array['x', 'y']) as key, 0 as n`);
    /** Its number is its place among the transactions of the key. */
    const next = (key: string) => async (manager: EntityManager) => {
      const [{ n }] = (await manager.query('select n from counter where key = $1', [key])) as [{ n: number }];
      await enqueue(key, String(n + 1));
      await manager.query('update counter set n = $2 where key = $1', [key, n + 1]);
    };
    const writer = async (): Promise<number> => {
      let refused = 0;
      for (const key of ['x', 'y', 'x', 'y']) refused += await completed(next(key));
      return refused;
    };
    const refused = await Promise.all(Array.from({ length: 6 }, writer));
    expect(Math.max(...refused)).toBeGreaterThan(0);
    const texts = await arrived(24);
    for (const key of ['x', 'y'])
      expect(texts.filter((text) => text.startsWith(key))).toEqual(
        Array.from({ length: 12 }, (_, n) => `${key}:${n + 1}`),
      );
  });
});
