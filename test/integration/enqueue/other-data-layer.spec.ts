import { randomBytes } from 'node:crypto';
import { Client, Pool, type PoolClient } from 'pg';
// From inside: the entries load TypeORM.
import { OutboxService } from '../../../lib/enqueue/outbox.service.js';
import { RecordingTransport } from '../../../lib/testing/recording-transport.js';
import { createRuntime, type OutboxRuntime } from '../../../lib/nest/assemble.js';
import { PgLayer } from '../../support/pg-layer.js';
import { describeWith, requiredUrl } from '../../support/services.js';

jest.mock('typeorm', () => {
  throw new Error('TypeORM was loaded.');
});

const message = (type: string) => ({ type, payload: 1 });

async function onServer(sql: string): Promise<void> {
  const client = new Client({ connectionString: requiredUrl('postgres') });
  await client.connect();
  await client.query(sql).finally(() => client.end());
}

describeWith('postgres', 'an application that uses pg, and no TypeORM', () => {
  const name = `outbox_test_${randomBytes(6).toString('hex')}`;
  const transport = new RecordingTransport();
  const committed: string[] = [];
  let pool: Pool;
  let runtime: OutboxRuntime;
  let outbox: OutboxService;
  beforeAll(async () => {
    await onServer(`create database ${name} template template0 encoding 'UTF8'`);
    const url = new URL(requiredUrl('postgres'));
    url.pathname = name;
    pool = new Pool({ connectionString: url.href });
    runtime = await createRuntime({
      input: {
        transports: { default: transport },
        relay: 'manual',
        wakeUp: 'poll',
        database: { setup: 'create' },
        logLevel: 'silent',
      },
      extras: {},
      overrides: null,
      dataLayer: new PgLayer(pool),
      moduleRef: undefined as never,
      application: {},
      declaredAt: 'a test',
    });
    outbox = new OutboxService(runtime.enqueue);
    outbox.events.on('enqueued', ({ ids }) => void committed.push(...ids));
    await pool.query('create table thing (id int)');
  });
  afterEach(async () => {
    transport.published.length = committed.length = 0;
    await pool.query('delete from thing');
  });
  afterAll(async () => {
    await runtime?.dispatcher.stop();
    await runtime?.close();
    await pool?.end();
    await onServer(`drop database if exists ${name} with (force)`);
  });

  /** What a relay publishes, in no order without keys, and how many rows of the application there are. */
  async function outcome(): Promise<[string[], number]> {
    await runtime.dispatcher.runOnce();
    const { rows } = await pool.query<{ n: number }>('select count(*)::int as n from thing');
    return [transport.published.map(({ type }) => type).sort(), rows[0]?.n ?? 0];
  }

  async function transaction(work: (client: PoolClient, manager: never) => Promise<unknown>, end: string) {
    const client = await pool.connect();
    try {
      await client.query('begin');
      await client.query('insert into thing values (1)');
      await work(client, client as never);
      await client.query(end);
    } finally {
      client.release();
    }
  }

  it('publishes what it enqueued in its own transaction, once that is committed', async () => {
    let id: string | undefined;
    await transaction(async (_client, manager) => {
      id = await outbox.enqueue(message('paid'), { manager });
      expect(await outcome()).toEqual([[], 0]);
    }, 'commit');
    expect(await outcome()).toEqual([['paid'], 1]);
    expect(committed).toEqual([id]);
  });

  it('leaves nothing of it after a rollback', async () => {
    await transaction((_client, manager) => outbox.enqueue([message('a'), message('b')], { manager }), 'rollback');
    expect(await outcome()).toEqual([[], 0]);
    expect(committed).toEqual([]);
  });

  it('loses with a savepoint what was enqueued behind it', async () => {
    await transaction(async (client, manager) => {
      await outbox.enqueue(message('before'), { manager });
      await client.query('savepoint here');
      await outbox.enqueue(message('inside'), { manager });
      await client.query('rollback to here');
      await outbox.enqueue(message('behind'), { manager });
    }, 'commit');
    expect(await outcome()).toEqual([['before', 'behind'], 1]);
    expect(committed).toHaveLength(2);
  });

  it('needs no handle in outbox.transaction, which commits, nests and rolls back', async () => {
    await outbox.transaction(async () => {
      await outbox.enqueue(message('outer'));
      const inner = outbox.transaction(
        async () => {
          await outbox.enqueue(message('inner'));
          throw new Error('not this');
        },
        { nested: true },
      );
      await expect(inner).rejects.toThrow('not this');
    });
    const failed = outbox.transaction(async () => {
      await outbox.enqueue(message('never'));
      throw new Error('no');
    });
    await expect(failed).rejects.toThrow('no');
    await outbox.enqueueOutsideTransaction(message('alone'));
    expect((await outcome())[0]).toEqual(['alone', 'outer']);
  });

  it('is refused outside of a transaction, and beside the end of one', async () => {
    const refused = { code: 'TRANSACTION_REQUIRED' };
    await expect(outbox.enqueue(message('a'))).rejects.toMatchObject(refused);
    await expect(outbox.enqueue(message('a'), { manager: pool as never })).rejects.toMatchObject(refused);
    await transaction(async (client, manager) => {
      const end = client.query('rollback');
      await expect(outbox.enqueue(message('late'), { manager })).rejects.toMatchObject(refused);
      await end;
      await expect(outbox.enqueue(message('later'), { manager })).rejects.toMatchObject(refused);
    }, 'select 1');
    expect(await outcome()).toEqual([[], 0]);
  });

  it('commits nothing that an enqueue in flight does not know of: its end waits', async () => {
    await transaction(async (client, manager) => {
      const written = outbox.enqueue(message('in flight'), { manager });
      await Promise.all([client.query('commit'), written]);
    }, 'select 1');
    expect(await outcome()).toEqual([['in flight'], 1]);
  });
});
