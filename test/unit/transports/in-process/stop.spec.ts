import type { OutboxMessage, PublishResult } from '../../../../lib/index.js';
import { systemClock } from '../../../../lib/time/clock.js';
import { Publisher } from '../../../../lib/relay/publish/publisher.js';
import { InProcessHandlers } from '../../../../lib/transports/in-process/handlers.js';
import { InProcessTransport } from '../../../../lib/transports/in-process/in-process.js';
import { gate, stored, turn } from '../../../support/transport-relay.js';

type Handler = (message: OutboxMessage) => unknown;

/** One message on its way to these handlers; `begun` when the last of them was called. */
function publishing(timeout: number, calls: Readonly<Record<string, Handler>>) {
  const handlers = new InProcessHandlers();
  const begun = gate();
  const message = stored();
  const open = new Set(Object.keys(calls));
  for (const [id, call] of Object.entries(calls)) {
    const told: Handler = (given) => {
      open.delete(id);
      if (open.size === 0) begun.open();
      return call(given);
    };
    handlers.add({ id, type: message.type, version: undefined, call: told });
  }
  const publisher = new Publisher(new InProcessTransport(handlers, 10), systemClock, timeout);
  const kill = new AbortController();
  const results: PublishResult[] = [];
  const ended = publisher.publish(
    [message],
    (_index, result) => result === 'late' || results.push(result),
    kill.signal,
  );
  return { begun: begun.opened, kill, ended, results };
}

const never = (): Promise<void> => new Promise(() => {});
const refuse = (): Promise<never> => Promise.reject(new Error('refused'));

describe('a stop while a handler runs', () => {
  it('is not the fault of the message', async () => {
    const { begun, kill, ended, results } = publishing(60_000, { hangs: never });
    await begun;
    kill.abort();
    await ended;
    expect(results).toMatchObject([{ ok: false, blame: 'transport' }]);
    expect(String((results[0] as { error: Error }).error.message)).toContain('hangs');
  });

  it('leaves what failed before it the fault of the message, and names only that', async () => {
    const { begun, kill, ended, results } = publishing(60_000, { throws: refuse, hangs: never });
    await begun;
    await turn();
    kill.abort();
    await ended;
    expect(results).toMatchObject([
      {
        ok: false,
        blame: 'message',
        error: { message: expect.stringMatching(/^Failed: throws at \S+:\d+:\d+\.$/), cause: { message: 'refused' } },
      },
    ]);
  });

  it('does not excuse a handler that had all its time', async () => {
    const { kill, ended, results } = publishing(200, { hangs: never });
    await ended;
    kill.abort();
    expect(results).toMatchObject([{ ok: false, blame: 'message', error: { message: 'Failed: hangs.' } }]);
  });
});
