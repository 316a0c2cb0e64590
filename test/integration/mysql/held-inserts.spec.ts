import { setTimeout as delay } from 'node:timers/promises';
import { bucketOf } from '../../../lib/message/bucket-of.js';
import type { RelayLoops } from '../../../lib/relay/relay-loops.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeOnMysqlFamily } from '../../support/services.js';

/** An INSERT takes the numbers of all its rows with the first one, and a lock may hold it before any is there. */
describeOnMysqlFamily('INSERTs that are held up', (kind) => {
  let harness: Harness;
  afterEach(() => harness?.close());

  const BUCKETS = 8;
  const keyOf = (bucket: number): string => {
    for (let n = 0; ; n += 1) if (bucketOf(`k${n}`, BUCKETS) === bucket) return `k${n}`;
  };
  const OTHER = keyOf(1);
  const KEY = keyOf(5);
  const send = (...messages: [key: string, text: string][]): Promise<unknown> =>
    harness.enqueue(messages.map(([key, text]) => ({ key, payload: Buffer.from(text) })));

  /** Keeps everybody from inserting into one bucket, as somebody's `select … for update` does. */
  async function lockBucket(bucket: number, next: number): Promise<() => Promise<void>> {
    const [keeper, locker] = [harness.dataSource.createQueryRunner(), harness.dataSource.createQueryRunner()];
    await keeper.startTransaction('READ COMMITTED'); // a row behind the bucket, where the lock ends
    await keeper.query(`insert into outbox_ready (transport, bucket, id, topic) values (0, ${next}, uuid(), 't')`);
    await locker.startTransaction('REPEATABLE READ');
    await locker.query(`select * from outbox_ready where transport = 0 and bucket = ${bucket} for update`);
    return async () => {
      for (const runner of [locker, keeper]) {
        await runner.rollbackTransaction();
        await runner.release();
      }
    };
  }

  /** `enqueue([a, b])`, whose first row waits for a lock. */
  async function waits(): Promise<Held> {
    const unlock = await lockBucket(1, 3);
    return { inserted: send([OTHER, 'first'], [KEY, 'held']), unlock };
  }

  /** A statement of another program whose first row is there, and the second, with its number, not yet. */
  async function slow(): Promise<Held> {
    const keeper = harness.dataSource.createQueryRunner();
    await keeper.query(`do get_lock(concat(database(), '.held'), 600)`);
    const inserted = harness.dataSource.query(
      `insert into outbox_ready (topic, \`key\`, payload)
         values ('t', ?, 'first'), ('t', ?, if(get_lock(concat(database(), '.held'), 600) = 1, 'held', ''))`,
      [OTHER, KEY],
    );
    const unlock = async (): Promise<void> => {
      await keeper.query(`do release_lock(concat(database(), '.held'))`);
      await keeper.release();
    };
    return { inserted, unlock };
  }

  it('P6: the server says how long a statement waits for a lock', async () => {
    harness = await createHarness(kind);
    const [row] = (await harness.dataSource.query('select @@global.innodb_lock_wait_timeout as s')) as { s: number }[];
    const probed = await harness.store.ready.probe?.(0, [{ bucket: 0, after: '0', upTo: '5' }]);
    expect(probed).toMatchObject({ clean: [true], lockWait: 1_000 * Number(row?.s) });
  });

  it.each([
    ['its first row waits for a lock', waits],
    ['its second row is slow', slow],
  ])(
    'P6: seconds pass between the number of a row and the row, because %s: it keeps its place in the order of its key',
    async (_, hold) => {
      harness = await createHarness(kind, { buckets: BUCKETS, pollInterval: 100 });
      const transport = new ScriptedTransport();
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await dispatcher.start();
      await send([KEY, 'warm']);
      await transport.until(() => transport.published.length === 1);
      // It would find the row in any case, 45 s later.
      (dispatcher.relays[0] as RelayLoops).relay.reader.lateRows.scan.turnAt = Infinity;
      const { inserted, unlock } = await hold();
      await delay(100);
      const others: string[] = [];
      for (const end = Date.now() + HELD; Date.now() < end; await delay(200)) {
        others.push(`other${others.length}`);
        await send([KEY, others.at(-1) as string]);
      }
      await unlock();
      await inserted;
      await send([KEY, 'after']);
      await transport.until(() => transport.published.length === others.length + 4, 60_000);
      const ofKey = transport.published.filter(({ key }) => key === KEY).map(({ payload }) => String(payload));
      expect(ofKey).toEqual(['warm', ...others, 'held', 'after']);
      expect(hooks.of('warning')).toEqual([]);
    },
  );
});

interface Held {
  readonly inserted: Promise<unknown>;
  readonly unlock: () => Promise<unknown>;
}
/** Milliseconds, at the least. */
const HELD = 5_500;
