import { inversions, openCommitLog, Sightings, writeOverlapping } from '../support/commit-order.js';
import { OpenTransaction } from '../support/open-transactions.js';
import { ScriptedTransport, type Harness } from '../support/relay.js';

type Written = Awaited<ReturnType<typeof writeOverlapping>>;
type Log = Awaited<ReturnType<typeof openCommitLog>>;

/** Against what the server itself wrote down; needs servers that write it. */
export function describeCommitOrder(
  open: (ordering: 'key' | 'strict') => Promise<Harness>,
  /** What else holds on this database when all is published. */
  afterwards: (harness: Harness, written: Written) => void | Promise<void> = () => undefined,
): void {
  async function compare(
    ordering: 'key' | 'strict',
    check: (log: Log, sightings: Sightings, written: Written, harness: Harness) => Promise<void>,
  ): Promise<void> {
    const harness = await open(ordering);
    const log = await openCommitLog(harness);
    const sightings = new Sightings();
    try {
      await harness.relay({ default: sightings.transport }).dispatcher.start();
      const written = await writeOverlapping(harness);
      await sightings.transport.until(() => sightings.count >= written.committed, 60_000);
      await check(log, sightings, written, harness);
    } finally {
      await log.close();
      await harness.close();
    }
  }

  it("A3: messages of a key are published in the order of the commits, as the server's log has it", () =>
    compare('strict', async (log, sightings, written, harness) => {
      expect(Object.fromEntries(sightings.found)).toEqual(Object.fromEntries(await log.read()));
      await afterwards(harness, written);
    }));

  it('A3: the same log convicts the order of the inserts', () =>
    compare('key', async (log, sightings, { committed }) => {
      const order = await log.read();
      expect([...order.values()].flat().length).toBe(committed);
      expect(inversions(order, sightings.found)).toBeGreaterThan(0);
    }));
}

/** A rule that needs no log. */
export function itHoldsTheKeyOfARetry(harness: () => Harness): void {
  it('a message that is tried again holds its key', async () => {
    const transport = new ScriptedTransport();
    const failed = new Set<string>();
    transport.behave = ({ id, payload }) => {
      if (String(payload) !== '1' || failed.has(id)) return { ok: true };
      failed.add(id);
      return { ok: false, blame: 'message', error: new Error('not yet') };
    };
    for (const text of ['1', '2', '3']) {
      const transaction = await OpenTransaction.begin(harness());
      await transaction.enqueue(text, 'k');
      await transaction.commit();
    }
    const { dispatcher } = harness().relay({ default: transport });
    await dispatcher.start();
    await transport.until(() => transport.published.length === 3);
    await dispatcher.stop();
    expect(transport.texts).toEqual(['1', '2', '3']);
  });
}
