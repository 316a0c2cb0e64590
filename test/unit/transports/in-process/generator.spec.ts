import type { PublishResult } from '../../../../lib/index.js';
import { InProcessHandlers } from '../../../../lib/transports/in-process/handlers.js';
import { InProcessTransport } from '../../../../lib/transports/in-process/in-process.js';
import { contractMessage, publish } from '../../../support/publish.js';

const message = contractMessage({ topic: 't', type: 'plain' });

async function handledBy(call: () => unknown): Promise<PublishResult | undefined> {
  const handlers = new InProcessHandlers();
  handlers.add({ id: 'post', type: 'plain', version: undefined, call });
  return (await publish(new InProcessTransport(handlers, 1), [message]))[0];
}

describe('a handler that is a generator', () => {
  const steps: string[] = [];
  beforeEach(() => steps.splice(0));
  function* plain(): Generator<Promise<void>> {
    steps.push('begun');
    yield Promise.resolve().then(() => void steps.push('awaited'));
    steps.push('ended');
  }
  async function* later(): AsyncGenerator<number> {
    steps.push('begun');
    yield 1;
    steps.push('awaited');
    yield 2;
    steps.push('ended');
  }

  it.each<[string, () => unknown]>([
    ['a plain one', plain],
    ['an async one', later],
    ['one in a promise', async () => later()],
  ])('K3: is run to its end: %s', async (_name, call) => {
    expect(await handledBy(call)).toEqual({ ok: true });
    expect(steps).toEqual(['begun', 'awaited', 'ended']);
  });

  it.each<[string, () => unknown]>([
    [
      'throws',
      function* () {
        yield 1;
        throw new Error('503');
      },
    ],
    [
      'throws later',
      async function* () {
        yield 1;
        throw new Error('503');
      },
    ],
    [
      'yields what rejects',
      function* () {
        yield Promise.reject(new Error('503'));
      },
    ],
  ])('K3: has failed when it %s', async (_name, call) => {
    expect(await handledBy(call)).toMatchObject({ ok: false, blame: 'message', error: { cause: { message: '503' } } });
  });

  it.each([['text'], [[1, 2]], [new Map([[1, 2]])], [new Set([1])], [{ next: 1 }], [null]])(
    'what only holds values is none: %p',
    async (value) => {
      expect(await handledBy(() => value)).toEqual({ ok: true });
    },
  );
});
