import { transactionExecutor } from '../../../lib/data-layers/typeorm/transaction.js';
import type { Lease } from '../../../lib/store/lease-store.js';
import { newMessage } from '../../support/relay.js';
import { PostgresFixture } from '../../support/postgres-store.js';
import { describeWith } from '../../support/services.js';

/**
 * Found by the simulation: a delete that a crash of the server takes back leaves the row marked as being sent in the epoch
 * of a lease that its owner still holds, and such a row nobody takes again.
 */
describeWith('postgres', 'a settled message of the parked table on PostgreSQL', () => {
  const fixture = new PostgresFixture();
  afterEach(() => fixture.stop());

  it('is on disk when the settle is answered, unlike one of the ready table, which is only published twice', async () => {
    await fixture.start();
    const store = fixture.store();
    await store.setup.create({ buckets: 4, ordering: 'key', coordination: 'buckets' });
    const [transport] = [...(await store.setup.transports(['default'], 'default')).values()] as [number];
    await fixture.application.query(`
      create table waits (what text, synchronous text);
      create function note() returns trigger language plpgsql set search_path from current as
        $$ begin insert into waits values (tg_table_name, current_setting('synchronous_commit')); return null; end $$;
      create constraint trigger note after delete on outbox_ready initially deferred for each row execute function note();
      create constraint trigger note after delete on outbox_parked initially deferred for each row execute function note();`);
    await fixture.committed((tx) =>
      store.writer.insert(tx, [newMessage({ transport, bucket: 0, key: null, delay: 0 })]),
    );
    await fixture.committed((tx) => store.writer.insert(tx, [newMessage({ transport, bucket: 0, key: null })]));
    const leases: Lease[] = await store.leases.acquire({ owner: 'a', leaseMs: 60_000, transport, limit: 4 });
    const { rows: due } = await store.parked.due(transport, [0], 10);
    const parked = await store.parked.take({ owner: 'a', transport, leases, due, keys: [], perKey: 1 });
    const ready = await store.ready.fetch({
      transport,
      positions: [{ bucket: 0, after: '0' }],
      perBucket: 10,
      limit: 10,
    });

    for (const { messages } of [parked, ready]) {
      expect(messages).toHaveLength(1);
      expect((await store.ready.settle(transport, messages, 'delete')).affected).toBe(1);
    }
    expect(await fixture.application.query('select what, synchronous from waits order by what')).toEqual([
      { what: 'outbox_parked', synchronous: 'on' },
      { what: 'outbox_ready', synchronous: 'off' },
    ]);
  });
});

describe.each(['key', 'strict'] as const)('a transaction that does not wait for the disk, ordering: %s', (ordering) => {
  describeWith('postgres', 'on PostgreSQL', () => {
    const fixture = new PostgresFixture();
    afterEach(() => fixture.stop());

    it('A6: is known by what it says when its messages get into the ready table', async () => {
      await fixture.start();
      const store = fixture.store({ ordering });
      await store.setup.create({ buckets: 4, ordering, coordination: 'buckets' });
      await store.setup.transports(['default'], 'default');
      const off = 'set local synchronous_commit = off';
      /** Whether the relay takes it for durable as it is. */
      const durable = async (key: string | null, when: 'before' | 'after' | 'after, moved'): Promise<boolean> => {
        await fixture.application.transaction(async (manager) => {
          if (when === 'before') await manager.query(off);
          await store.writer.insert(transactionExecutor(manager.queryRunner as never), [
            newMessage({ key, bucket: 0 }),
          ]);
          if (when === 'after, moved') await manager.query('set constraints all immediate');
          if (when !== 'before') await manager.query(off);
        });
        const positions = [{ bucket: 0, after: '0' }];
        const read = await store.ready.fetch({ transport: 0, positions, perBucket: 10, limit: 10 });
        expect(read.messages).toHaveLength(1);
        await fixture.application.query('delete from outbox_ready');
        return read.durable;
      };
      expect([await durable('k', 'before'), await durable(null, 'before')]).toEqual([false, false]);
      // Keyed messages of a strict order get there at COMMIT; the others where they are enqueued.
      expect([await durable('k', 'after'), await durable(null, 'after')]).toEqual([ordering === 'key', true]);
      expect(await durable('k', 'after, moved')).toBe(true);
    });
  });
});
