import { once } from 'node:events';
import { createTestDatabase } from '../support/databases.js';
import { startFile } from '../support/own-process.js';
import { describeOnEach } from '../support/services.js';

export interface FailedStart {
  readonly url: string;
  readonly fails: 'twin' | 'handler' | 'transport';
}

describeOnEach([], 'a start that fails', (kind) => {
  it.each([
    ['twin', 'DUPLICATE_INSTANCE'],
    ['handler', 'HANDLER_NOT_ROUTED'],
    ['transport', 'Error: no such broker'],
  ] as const)(
    'Y1: closes what every outbox of the application opened (%s): the process ends by itself',
    async (fails, code) => {
      const database = await createTestDatabase(kind);
      const settings: FailedStart = { url: database.url, fails };
      const child = startFile('test/processes/failed-start-process.ts', { FAILED_START: JSON.stringify(settings) });
      try {
        const signal = AbortSignal.timeout(120_000); // an open connection would keep it for ever
        const ended = once(child, 'exit', { signal });
        const [news] = (await once(child, 'message', { signal })) as [object];
        expect(news).toEqual({ failed: code });
        expect((await ended)[0]).toBe(0);
      } finally {
        child.kill('SIGKILL');
        await database.drop();
      }
    },
  );
});
