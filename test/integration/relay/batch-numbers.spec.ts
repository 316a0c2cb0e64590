import type { PublishContext, OutboxMessage } from '../../../lib/index.js';
import { PUBLISHED } from '../../../lib/transports/transport.js';
import { createHarness, ScriptedTransport, type Harness } from '../../support/relay.js';
import { DATABASES, describeWith } from '../../support/services.js';
import { until } from '../../support/until.js';

/** Remembers which messages came together, by number. */
class Batches extends ScriptedTransport {
  readonly batches = new Map<number, readonly string[]>();

  override publish(batch: readonly OutboxMessage[], context: PublishContext): Promise<void> {
    const numbers = new Set(batch.map((message) => message.batch));
    const [number = 0] = numbers;
    if (numbers.size !== 1 || this.batches.has(number)) throw new Error(`batch ${[...numbers].join(', ')}`);
    this.batches.set(
      number,
      batch.map(({ id }) => id),
    );
    return super.publish(batch, context);
  }

  /** Of the batches in which it was handed over. */
  numbersOf(id: string): number[] {
    return [...this.batches].flatMap(([number, ids]) => (ids.includes(id) ? [number] : []));
  }
}

describe.each(DATABASES)('the number of a batch, on %s', (kind) => {
  describeWith(kind, kind, () => {
    let harness: Harness;
    afterEach(() => harness?.close());

    it.each(['buckets', 'rowLock'] as const)(
      'S1-40: is in all that is told of its messages, beside the id of the run (%s)',
      async (coordination) => {
        harness = await createHarness(kind, {
          coordination,
          ordering: coordination === 'rowLock' ? 'none' : 'key',
          batchSize: 3,
          pollInterval: 20,
          retry: { initial: 1, max: 1, maxAttempts: 2 },
        });
        const ids = await harness.enqueue(Array.from({ length: 7 }, () => ({ key: null })));
        const [, once, , , never] = ids as [string, string, string, string, string];
        const transport = new Batches();
        transport.behave = ({ id, attempts }) =>
          id === never || (id === once && attempts === 0)
            ? { ok: false, blame: 'message', error: new Error('no') }
            : PUBLISHED;
        const { dispatcher, hooks } = harness.relay({ default: transport });
        await dispatcher.start();
        await hooks.until('dead');
        await until(() => hooks.of('published').flatMap((event) => event.ids).length === 6);
        await dispatcher.stop();

        const [retriedOnce] = hooks.of('retried').filter(({ id }) => id === once);
        expect(retriedOnce?.batch).toBe(transport.numbersOf(once)[0]);
        const [died] = hooks.of('dead');
        expect([died?.id, died?.batch]).toEqual([never, transport.numbersOf(never)[1]]);
        const failed = hooks.of('failed').map(({ batch, count }) => Array(count).fill(batch));
        const tries = [transport.numbersOf(once)[0], ...transport.numbersOf(never)];
        expect(failed.flat().sort()).toEqual(tries.sort());
        for (const { ids: some, batches } of hooks.of('published'))
          expect([...batches].sort()).toEqual([...new Set(some.map((id) => transport.numbersOf(id).at(-1)))].sort());

        const told = (['published', 'retried', 'dead', 'failed'] as const).flatMap((name) => hooks.of(name));
        expect([...transport.batches.keys()].sort()).toEqual(Array.from(transport.batches.keys(), (_, n) => n + 1));
        const runs = new Set(told.map(({ runId }) => runId));
        expect([runs.size, [...runs][0]]).toEqual([1, expect.any(String)]);
      },
    );
  });
});
