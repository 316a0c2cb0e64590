import type { OutboxMessage, PublishResult } from '../../../../lib/index.js';
import { InProcessHandlers } from '../../../../lib/transports/in-process/handlers.js';
import { InProcessTransport } from '../../../../lib/transports/in-process/in-process.js';
import { probePublish } from '../../../support/publish.js';
import { gate, stored, turn } from '../../../support/transport-relay.js';

type Handler = (message: OutboxMessage) => unknown;

/** Publishes to these handlers, again and again. */
function handledBy(calls: Readonly<Record<string, Handler>>) {
  const handlers = new InProcessHandlers();
  for (const [id, call] of Object.entries(calls)) handlers.add({ id, type: 't', version: undefined, call });
  const transport = new InProcessTransport(handlers, 10);
  return async (...batch: OutboxMessage[]): Promise<readonly PublishResult[]> =>
    (await probePublish(transport, batch, { timeout: 60_000 })).results;
}

/** As plain SQL can insert them. */
function twins(): [OutboxMessage, OutboxMessage] {
  const first = stored();
  return [first, stored({ id: first.id })];
}

describe('F8: two rows with one id are two messages to handlers', () => {
  it('also while the first is being handled', async () => {
    const [first, second] = twins();
    const handled: string[] = [];
    const slow = gate();
    const results = handledBy({
      slow: async ({ seq }) => {
        handled.push(seq);
        await slow.opened;
      },
    })(first, second);
    await turn();
    slow.open();
    expect(await results).toEqual([{ ok: true }, { ok: true }]);
    expect(handled).toEqual([first.seq, second.seq]);
  });

  it('also when some of the handlers have failed: each is tried again by what it has behind it, parked or not', async () => {
    const [first, second] = twins();
    const handled: string[] = [];
    let refusing = true;
    const publish = handledBy({
      well: ({ seq }) => handled.push(`well ${seq}`),
      ill: ({ seq }) => {
        handled.push(`ill ${seq}`);
        if (refusing) throw new Error('refused');
      },
    });
    expect(await publish(first)).toMatchObject([{ ok: false, progress: '["well"]' }]);
    refusing = false;
    expect(await publish(second)).toEqual([{ ok: true }]);
    // Its progress could not be stored: this process remembers.
    const { id, seq } = first;
    expect(await publish(stored({ id, seq, parkedId: '1', parkedState: 'waiting' }))).toEqual([{ ok: true }]);
    expect(handled).toEqual([
      ...[`well ${seq}`, `ill ${seq}`],
      ...[`well ${second.seq}`, `ill ${second.seq}`],
      `ill ${seq}`,
    ]);
  });
});
