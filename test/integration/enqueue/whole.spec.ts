// @tier gate
import fc from 'fast-check';
import type { EntityManager } from 'typeorm';
import type { OutboxService } from '../../../lib/index.js';
import { uuidV7 } from '../../../lib/message/uuid-v7.js';
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { FaultyClient, type StatementFault } from '../../support/faulty-client.js';
import { describeWith, DATABASES } from '../../support/services.js';

/** What is enqueued in one call: one statement, or several. */
type Call = 'plain' | 'array' | 'both tables' | 'dedup key' | 'dedup keys' | 'own ids';
/** A call of which a statement may fail, and what its caller does then; or a part with a savepoint around it. */
type Step =
  | { call: Call; fault?: { after: number; kind: StatementFault }; next: 'throw' | 'go on' | 'again' }
  | { savepoint: Step[]; caught: boolean };

const { step } = fc.letrec<{ step: Step }>((tie) => ({
  step: fc.oneof(
    { depthSize: 'small', maxDepth: 2 },
    fc.record(
      {
        call: fc.constantFrom<Call[]>('plain', 'array', 'both tables', 'dedup key', 'dedup keys', 'own ids'),
        fault: fc.record({
          after: fc.nat(6),
          kind: fc.constantFrom<StatementFault[]>('unsent', 'unanswered', 'refused'),
        }),
        next: fc.constantFrom<('throw' | 'go on' | 'again')[]>('throw', 'go on', 'again'),
      },
      { requiredKeys: ['call', 'next'] },
    ),
    fc.record({ savepoint: fc.array(tie('step'), { maxLength: 3 }), caught: fc.boolean() }),
  ),
}));

/** Without a savepoint the first table keeps its row. */
const HALF: Step = { call: 'both tables', fault: { after: 1, kind: 'refused' }, next: 'go on' };
/** On MySQL the savepoint is gone then, and the transaction is not. */
const RELEASED: Step = { call: 'both tables', fault: { after: 3, kind: 'unanswered' }, next: 'again' };

/**
 * TypeORM counts its savepoints wrongly once PostgreSQL refused one: the part around it sends the COMMIT of all, and the whole
 * fails after that, as there is nothing left to commit.
 */
const COMMITTED_AND_FAILED: Step[] = [
  { savepoint: [{ call: 'plain', next: 'throw' }], caught: false },
  {
    savepoint: [
      { call: 'plain', fault: { after: 0, kind: 'refused' }, next: 'go on' },
      { savepoint: [], caught: true },
    ],
    caught: false,
  },
];

/** TypeORM rolls the part around a refused savepoint back then, and goes on with it as if nothing had been. */
const ROLLED_BACK_AND_GONE_ON: Step = {
  savepoint: [
    { call: 'plain', next: 'throw' },
    { call: 'plain', fault: { after: 0, kind: 'refused' }, next: 'go on' },
    { savepoint: [], caught: true },
  ],
  caught: false,
};

const EACH = DATABASES.flatMap((kind) => (['key', 'strict'] as const).map((ordering) => ({ kind, ordering })));

describe.each(EACH)('an enqueue of which a statement fails, on $kind with ordering $ordering', ({ kind, ordering }) => {
  describeWith(kind, 'whatever its caller does then', () => {
    const db = useEnqueueDatabase(kind, 2, ordering);
    let outbox: OutboxService;
    let count = 0;
    beforeAll(() => void (outbox = db.outbox()));

    /** With a key and without one: strict order treats them differently. */
    const message = (more: object = {}) => ({
      type: `m${(count += 1)}`,
      payload: 1,
      ...(count % 3 === 0 ? {} : { key: `k${count % 2}` }),
      ...more,
    });
    const key = () => ({ dedupKey: `k${(count += 1)}` });
    const CALLS: Readonly<Record<Call, () => { type: string; dedupKey?: string }[]>> = {
      plain: () => [message()],
      array: () => [message(), message()],
      'both tables': () => [message(), message({ delay: '1h' })],
      'dedup key': () => [message(key())],
      'dedup keys': () => [message(key()), message(), message({ ...key(), delay: '1h' })],
      'own ids': () => [message({ id: uuidV7() }), message({ id: uuidV7() })],
    };

    /** Each message that was enqueued has a row of the application beside it, written once its call returned. */
    async function run(manager: EntityManager, faulty: FaultyClient, steps: readonly Step[]): Promise<void> {
      for (const one of steps) {
        // TypeORM rolls everything back when PostgreSQL refuses a savepoint, and would begin another transaction.
        if (manager.queryRunner?.isTransactionActive !== true) throw new Error('no transaction');
        if ('savepoint' in one) {
          const nested = manager.transaction((deeper) => run(deeper, faulty, one.savepoint));
          await (one.caught ? nested.catch(() => undefined) : nested);
          continue;
        }
        const messages = CALLS[one.call]();
        const enqueue = async (): Promise<void> => {
          await outbox.enqueue(messages, { manager });
          for (const { type } of messages) await manager.query(`insert into thing (id) values (${type.slice(1)})`);
        };
        faulty.fault = one.fault && { ...one.fault };
        const failed = await enqueue().then(
          () => undefined,
          (error: unknown) => ({ error }),
        );
        faulty.fault = undefined;
        if (failed !== undefined && one.next === 'throw') throw failed.error;
        if (failed !== undefined && one.next === 'again') await enqueue();
      }
    }

    it('H1, H3: what is committed is what returned, whatever failed and whoever went on', async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 5 }), async (steps) => {
          await db.clear();
          const runner = db.dataSource.createQueryRunner();
          const faulty = await FaultyClient.of(runner);
          try {
            await runner.manager.transaction((manager) => run(manager, faulty, steps));
          } catch {
            // What was committed all the same, the rows beside the messages tell.
          } finally {
            await runner.release();
          }
          const things = (await db.dataSource.query('select id from thing')) as { id: number }[];
          const expected = things.map(({ id }) => `m${id}`).sort();
          const keys = await db.dataSource.query('select id from outbox_dedup');
          const rows = await db.rows();
          expect(rows.map(({ type }) => type).sort()).toEqual(expected);
          expect(await db.staged()).toBe(0);
          for (const { id } of keys as { id: string }[]) expect(rows.map((row) => row.id)).toContain(id.toLowerCase());
        }),
        { numRuns: 80, examples: [[[HALF]], [[RELEASED]], [COMMITTED_AND_FAILED], [[ROLLED_BACK_AND_GONE_ON]]] },
      );
    });
  });
});
