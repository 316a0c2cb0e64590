import { EMPTY, Observable, of, Subject, throwError } from 'rxjs';
import type { PublishResult } from '../../../../lib/index.js';
import { InProcessHandlers } from '../../../../lib/transports/in-process/handlers.js';
import { InProcessTransport } from '../../../../lib/transports/in-process/in-process.js';
import { contractMessage, probePublish } from '../../../support/publish.js';
import { turn } from '../../../support/transport-relay.js';

const message = contractMessage({ topic: 't', type: 'plain' });

/** A transport whose one handler returns what `call` does. */
function handledBy(call: () => unknown) {
  const handlers = new InProcessHandlers();
  handlers.add({ id: 'post', type: 'plain', version: undefined, call });
  const transport = new InProcessTransport(handlers, 1);
  return async (timeout = 60_000): Promise<PublishResult | undefined> =>
    (await probePublish(transport, [message], { timeout })).results[0];
}

describe('a handler that returns an Observable', () => {
  it.each<[string, (requests: Observable<number>) => unknown]>([
    ['as it is', (requests) => requests],
    ['in a promise', async (requests) => requests],
  ])('is subscribed to, once: %s', async (_name, call) => {
    let requests = 0;
    const request = new Observable<number>((subscriber) => {
      requests += 1;
      subscriber.next(200);
      subscriber.complete();
    });
    expect(await handledBy(() => call(request))()).toEqual({ ok: true });
    expect(requests).toBe(1);
  });

  it('has succeeded when it completes, not before, with a value or without one', async () => {
    const answers = new Subject<number>();
    let result: PublishResult | undefined;
    const published = handledBy(() => answers)().then((given) => (result = given));
    await turn();
    answers.next(1);
    await turn();
    expect([answers.observed, result]).toEqual([true, undefined]);
    answers.complete();
    expect(await published).toEqual({ ok: true });
    expect(await handledBy(() => EMPTY)()).toEqual({ ok: true });
  });

  it.each<[string, () => unknown]>([
    ['errors', () => throwError(() => new Error('503'))],
    [
      'throws at the subscription',
      () => ({
        pipe: of,
        subscribe() {
          throw new Error('503');
        },
      }),
    ],
  ])('has failed when it %s', async (_name, call) => {
    expect(await handledBy(call)()).toMatchObject({
      ok: false,
      blame: 'message',
      error: {
        message: expect.stringMatching(/^Failed: post( at test\S+observable\.spec\.ts:\d+:\d+)?\.$/),
        cause: { message: '503' },
      },
    });
  });

  it('past its time goes on, and the next try waits for it instead of subscribing once more', async () => {
    const answer = new Subject<number>();
    let calls = 0;
    const publish = handledBy(() => {
      calls += 1;
      return answer;
    });
    expect(await publish(50)).toMatchObject({ ok: false, error: { cause: { code: 'PUBLISH_TIMEOUT' } } });
    expect(await publish()).toMatchObject({ ok: false, suspect: 'handler', error: { code: 'HANDLER_BUSY' } });
    answer.complete();
    await turn();
    expect([await publish(), calls]).toEqual([{ ok: true }, 1]);
  });
});
