// @tier fast
import fc from 'fast-check';
import type { EntityManager } from 'typeorm';
import type { OutboxService } from '../../../lib/index.js';
import { useEnqueueDatabase } from '../../support/enqueue-database.js';
import { describeOnEach } from '../../support/services.js';

/** A step of a business transaction; `fail` throws at this await. */
type Step =
  | { do: 'thing' | 'message' | 'keyed' | 'refused' | 'floating' | 'fail' }
  | { do: 'savepoint'; caught: boolean; steps: Step[] };

const { step } = fc.letrec<{ step: Step }>((tie) => ({
  step: fc.oneof(
    { depthSize: 'small', maxDepth: 2 },
    fc.record({
      do: fc.constantFrom(
        'thing' as const,
        'message' as const,
        'keyed' as const,
        'refused' as const,
        'floating' as const,
      ),
    }),
    fc.record({ do: fc.constant('fail' as const) }),
    fc.record({
      do: fc.constant('savepoint' as const),
      caught: fc.boolean(),
      steps: fc.array(tie('step'), { maxLength: 4 }),
    }),
  ),
}));
const STOP = new Error('stop');

describeOnEach([], 'atomicity, of messages and the application’s own rows', (kind) => {
  const db = useEnqueueDatabase(kind, 2);
  let outbox: OutboxService;
  let keys = 0;
  beforeAll(() => void (outbox = db.outbox()));

  /** @returns how many messages and things this part leaves, if what is around it commits */
  async function run(manager: EntityManager, steps: readonly Step[]): Promise<{ messages: number; things: number }> {
    const left = { messages: 0, things: 0 };
    for (const one of steps) {
      if (one.do === 'fail') throw STOP;
      if (one.do === 'thing') left.things += await db.addThing(manager).then(() => 1);
      if (one.do === 'message') left.messages += (await outbox.enqueue([msg(), msg()], { manager })).length;
      if (one.do === 'keyed')
        left.messages += await outbox.enqueue(msg(), { manager, dedupKey: `${keys++}` }).then(() => 1);
      if (one.do === 'refused') await outbox.enqueue({ type: 'x', payload: 1n }, { manager }).catch(() => undefined);
      if (one.do === 'floating') {
        left.messages += 1;
        void outbox.enqueue(msg(), { manager, dedupKey: `${keys++}` }); // its await was forgotten
      }
      if (one.do === 'savepoint') {
        let inner = { messages: 0, things: 0 };
        const nested = manager.transaction(async (deeper) => {
          inner = await run(deeper, one.steps);
        });
        await (one.caught ? nested.catch(() => (inner = { messages: 0, things: 0 })) : nested);
        left.messages += inner.messages;
        left.things += inner.things;
      }
    }
    return left;
  }
  const msg = () => ({ type: 'm', payload: 1 });

  it('A8, A10: a message is there exactly when its transaction, and its savepoint, committed', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 6 }), async (steps) => {
        await db.clear();
        let expected = { messages: 0, things: 0 };
        await db.dataSource
          .transaction(async (manager) => void (expected = await run(manager, steps)))
          .catch((error: unknown) => {
            if (error !== STOP) throw error;
            expected = { messages: 0, things: 0 };
          });
        expect({ messages: (await db.rows()).length, things: await db.things() }).toEqual(expected);
      }),
      { numRuns: 60 },
    );
  });
});
