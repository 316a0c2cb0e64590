import { systemClock } from '../../../../lib/time/clock.js';
import type { OutboxHandlerContext, OutboxMessage, PublishFailure, PublishResult } from '../../../../lib/index.js';
import { Publisher } from '../../../../lib/relay/publish/publisher.js';
import { InProcessHandlers } from '../../../../lib/transports/in-process/handlers.js';
import { InProcessTransport } from '../../../../lib/transports/in-process/in-process.js';
import { gate, stored, turn } from '../../../support/transport-relay.js';

/** Publishes to one handler, as the relay does. */
function publishingTo(handler: (message: OutboxMessage, context: OutboxHandlerContext) => unknown, timeout: number) {
  const handlers = new InProcessHandlers();
  handlers.add({ id: 'slow', type: 't', version: undefined, call: handler });
  const publisher = new Publisher(new InProcessTransport(handlers, 10), systemClock, timeout);
  return async (message: OutboxMessage, kill = new AbortController().signal): Promise<PublishResult | undefined> => {
    const results: PublishResult[] = [];
    await publisher.publish([message], (_index, result) => result === 'late' || results.push(result), kill);
    return results[0];
  };
}
const never = (): Promise<void> => new Promise(() => {});

describe('a handler that goes on past its time', () => {
  // These calls tell the time by the process alone. It goes by only where a test says so: whatever answers without that, answers at once.
  beforeEach(() => void jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] }));
  afterEach(() => void jest.useRealTimers());
  /** What comes of this when so much time goes by. */
  const after = async <T>(ms: number, awaited: Promise<T>): Promise<T> => {
    await jest.advanceTimersByTimeAsync(ms);
    return awaited;
  };

  it('K6: is told so by its signal, and one that ends itself is called anew by the next try', async () => {
    const reasons: string[] = [];
    const publish = publishingTo(async (_message, { signal }) => {
      if (reasons.length > 0) return;
      await new Promise<void>((_resolve, reject) => {
        signal.addEventListener('abort', () => {
          reasons.push(String(signal.reason));
          reject(signal.reason as Error);
        });
      });
    }, 300);
    const message = stored();
    expect(await after(300, publish(message))).toMatchObject({ ok: false, blame: 'message' });
    expect(reasons).toEqual([expect.stringContaining('did not finish within')]);
    expect(await publish(message)).toEqual({ ok: true });
  });

  it('K6: is told of a stop that does not wait for it', async () => {
    const kill = new AbortController();
    const reasons: string[] = [];
    const publish = publishingTo((_message, { signal }) => {
      signal.addEventListener('abort', () => reasons.push(String(signal.reason)));
      kill.abort();
      return never();
    }, 60_000);
    expect(await publish(stored(), kill.signal)).toMatchObject({ ok: false, blame: 'transport' });
    expect(reasons).toEqual([expect.stringContaining('The relay stopped')]);
  });

  it('K6: hears so when it asks only then', async () => {
    const calls: OutboxHandlerContext[] = [];
    const publish = publishingTo((_message, context) => {
      calls.push(context);
      return never();
    }, 300);
    await after(300, publish(stored()));
    const { signal } = calls[0] as OutboxHandlerContext;
    expect(signal.aborted).toBe(true);
    expect(String(signal.reason)).toMatch('did not finish within');
  });

  it('K6: hears nothing when it ends in time', async () => {
    const signals: AbortSignal[] = [];
    const publish = publishingTo((_message, { signal }) => void signals.push(signal), 60_000);
    expect(await publish(stored())).toEqual({ ok: true });
    expect(signals.map(({ aborted }) => aborted)).toEqual([false]);
  });

  it('K6: is waited for until three times its time have passed, by no slot and no attempt, then called anew', async () => {
    const began = performance.now();
    const begun: number[] = [];
    const publish = publishingTo(() => {
      begun.push(performance.now() - began);
      return begun.length === 1 ? never() : undefined;
    }, 300);
    const message = stored();
    const failed = await after(300, publish(message));
    expect(failed).toMatchObject({ ok: false, blame: 'message', destination: 'handler "slow"' });
    const busy = { ok: false, blame: 'transport', suspect: 'handler', destination: 'handler "slow"' };
    const { retryIn } = (await publish(message)) as PublishFailure;
    expect(retryIn).toBe(600);
    await jest.advanceTimersByTimeAsync(599);
    expect(await publish(message)).toMatchObject({ ...busy, retryIn: 1 });
    await jest.advanceTimersByTimeAsync(1);
    expect(await publish(message)).toEqual({ ok: true });
    expect(begun).toEqual([0, 900]);
  });

  it('K7: its late success settles the next try, also while it is called anew', async () => {
    const calls: ReturnType<typeof gate<void>>[] = [];
    const publish = publishingTo(() => {
      calls.push(gate<void>());
      return calls.at(-1)?.opened;
    }, 600);
    const message = stored();
    expect(await after(600, publish(message))).toMatchObject({ ok: false, blame: 'message' });
    await jest.advanceTimersByTimeAsync(1_200);
    const second = publish(message);
    await turn();
    expect(calls).toHaveLength(2);
    calls[0]?.open();
    expect(await second).toEqual({ ok: true });
  });

  it('K7: has half of the slots once one of its calls took too long, and one more for each that ends in time', async () => {
    const begun: string[] = [];
    let hangs = true;
    const publish = publishingTo(({ id }) => {
      begun.push(id);
      return hangs ? never() : undefined;
    }, 1_000);
    const many = () => Promise.all(Array.from({ length: 12 }, () => publish(stored())));
    expect(await after(1_000, many())).toEqual(Array(12).fill(expect.objectContaining({ blame: 'message' })));
    begun.length = 0;
    const results = await after(1_000, many());
    expect(begun).toHaveLength(5);
    const put = results.filter((result) => result?.ok === false && result.suspect === 'handler');
    expect(put).toHaveLength(7);
    expect(put[0]).not.toHaveProperty('retryIn');
    hangs = false;
    for (let i = 0; i < 7; i += 1) expect(await publish(stored())).toEqual({ ok: true });
    hangs = true;
    begun.length = 0;
    await after(1_000, many());
    expect(begun).toHaveLength(12);
  });

  it('K6: is called anew at once when an operator set the attempts back', async () => {
    let calls = 0;
    const first = new AbortController();
    const publish = publishingTo(() => {
      first.abort(); // a stop, so that nobody waits for the first call
      return ++calls === 1 ? never() : undefined;
    }, 10_000);
    const row = { id: '00000000-0000-7000-8000-00000000abcd', seq: '77' };
    expect(await publish(stored({ ...row, attempts: 2 }), first.signal)).toMatchObject({ ok: false });
    expect(await publish(stored({ ...row, attempts: 0 }))).toEqual({ ok: true });
    expect(calls).toBe(2);
  });
});

it('K8: a handler that is missing is no attempt of the message, and says of which type', async () => {
  const publisher = new Publisher(new InProcessTransport(new InProcessHandlers(), 10), systemClock, 1_000);
  const results: PublishResult[] = [];
  await publisher.publish([stored()], (_index, result) => result === 'late' || results.push(result));
  expect(results).toMatchObject([
    { ok: false, blame: 'transport', suspect: 'handler', certain: true, destination: 'type "t" version 1' },
  ]);
});
