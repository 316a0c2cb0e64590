import { randomUUID } from 'node:crypto';
import type { OutboxMessage } from '../../../lib/index.js';
import type { SqlResult } from '../../../lib/store/executor.js';
import type { Lease } from '../../../lib/store/lease-store.js';
import type { PostgresStore } from '../../../lib/store/postgres/store.js';
import type { Sql } from '../../../lib/store/sql.js';
import type { TakeResult } from '../../../lib/store/parked-store.js';
import { OpenTransaction } from '../../support/open-transactions.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { operatorOf } from '../../support/operator.js';

/** What an operator's `release` or `requeue` does to a key's first row at the moment when the relay takes the key. */
describe.each(DATABASES)('%s: taking what changes at that moment', (kind) => {
  describeWith(kind, 'parked rows of a key', () => {
    let harness: Harness;
    let leases: Lease[];
    const owner = randomUUID();
    beforeEach(async () => {
      harness = await createHarness(kind, { buckets: 1 });
      leases = await harness.store.leases.acquire({ owner, leaseMs: 60_000, transport: 0, limit: 1 });
    });
    afterEach(async () => {
      await OpenTransaction.endAll();
      await harness.close();
    });
    const idsOf = ({ messages }: TakeResult): string[] => messages.map(({ id }) => id);

    /** Blocked, in this order, behind nothing. */
    async function blocked(count: number): Promise<OutboxMessage[]> {
      await harness.enqueue(Array.from({ length: count }, () => ({ key: 'k' })));
      const { messages } = await harness.store.ready.fetch({
        transport: 0,
        positions: [{ bucket: 0, after: '0' }],
        perBucket: 100,
        limit: 100,
      });
      await harness.store.ready.park(
        owner,
        leases,
        messages.map(({ id, bucket, seq }) => ({
          ...{ id, bucket, seq, state: 'blocked' as const, blocks: true, attempts: 0, delay: null, error: null },
        })),
      );
      return messages;
    }
    const take = () =>
      harness.store.parked.take({ owner, transport: 0, leases, due: [], keys: [{ bucket: 0, key: 'k' }], perKey: 100 });

    it.each([0, 1])('nothing behind row %i is taken without it', async (changed) => {
      const rows = await blocked(4);
      const ids = rows.map(({ id }) => id);
      const operator = await OpenTransaction.begin(harness);
      await operator.query(
        `update outbox_parked set due_at = ${kind === 'postgres' ? 'now()' : 'utc_timestamp(6)'} where id = '${ids[changed]}'`,
      );
      const taken = idsOf(await take());
      expect(taken).toEqual(ids.slice(0, changed)); // the part before it
      await operator.commit();
      expect(idsOf(await take())).toEqual(taken.length === 0 ? ids : []); // all of it, unless its first ones are out
    });

    it('what is being deleted is not taken', async () => {
      const [first, second] = await blocked(2);
      const operator = await OpenTransaction.begin(harness);
      await operator.query(`delete from outbox_parked where id = '${second?.id}'`);
      expect(idsOf(await take())).toEqual([first?.id]);
      await operator.commit();
    });

    it('what stands behind a row that was discarded between two statements of the take stays due', async () => {
      const [first, second] = await blocked(2);
      const settle = (harness.store as PostgresStore).database.connection('settle');
      const begin = settle.transaction.bind(settle);
      settle.transaction = (work) =>
        begin((tx, ended) => {
          const run = async (sql: Sql): Promise<SqlResult> => {
            if (/^(read parked|outbox_take_text)$/.test(String(sql.statement.name)))
              expect(await operatorOf(harness.store).discard({ ids: [first?.id as string] })).toMatchObject({
                changed: [first?.id],
              });
            return tx.run(sql);
          };
          return work({ run }, ended);
        });
      expect(idsOf(await take())).toEqual([]);
      settle.transaction = begin;
      const { rows } = await harness.store.parked.due(0, [0], 10);
      const taken = await harness.store.parked.take({ owner, transport: 0, leases, due: rows, keys: [], perKey: 100 });
      expect(idsOf(taken)).toEqual([second?.id]);
    });

    it('a key whose first row somebody holds is asked for again, and goes on in order', async () => {
      const rows = await blocked(3);
      const other = await OpenTransaction.begin(harness);
      await other.query(`select 1 from outbox_parked where id = '${rows[0]?.id}' for update`);
      const { messages, clear, passedOver } = await take();
      expect([messages, clear]).toEqual([[], []]);
      expect(passedOver).toEqual([expect.objectContaining({ bucket: 0, key: 'k' })]);
      await other.rollback();
      expect(idsOf(await take())).toEqual(rows.map(({ id }) => id));
    });

    it('nobody waits for a due row that somebody holds, but the scheduled ones of its key', async () => {
      const ids = await harness.enqueue(
        ['k', 'other', 'k', null].map((key, i) => ({ key, deliverAt: new Date(i + 1) })),
      );
      const takeDue = async () => {
        const { rows } = await harness.store.parked.due(0, [0], 100);
        return harness.store.parked.take({ owner, transport: 0, leases, due: rows, keys: [], perKey: 100 });
      };
      const other = await OpenTransaction.begin(harness);
      await other.query(`select 1 from outbox_parked where id = '${ids[0]}' for update`);
      const first = await takeDue();
      expect(new Set(idsOf(first))).toEqual(new Set([ids[1], ids[3]]));
      expect(first.passedOver).toEqual([expect.objectContaining({ bucket: 0, key: 'k' })]);
      await other.rollback();
      expect(idsOf(await takeDue())).toEqual([ids[0]]);
      expect((await takeDue()).passedOver).toEqual([]);
    });

    it('a relay goes on past it, and takes it once it is free', async () => {
      await harness.store.leases.giveBack(owner, leases);
      const ids = await harness.enqueue(Array.from({ length: 20 }, () => ({ delay: 0 })));
      const other = await OpenTransaction.begin(harness);
      await other.query(`select 1 from outbox_parked where id = '${ids[0]}' for update`);
      const transport = new ScriptedTransport();
      const { dispatcher, hooks } = harness.relay({ default: transport });
      await dispatcher.start();
      await transport.until(() => transport.published.length === ids.length - 1);
      await other.rollback();
      await transport.until(() => transport.published.length === ids.length);
      expect(transport.published.at(-1)?.id).toBe(ids[0]);
      expect(hooks.of('error')).toEqual([]);
    });
  });
});
