import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { createTestDatabase } from '../support/databases.js';
import { startFile } from '../support/own-process.js';
import { describeOnEach } from '../support/services.js';

export interface FailedStart {
  readonly url: string;
  readonly fails: 'twin' | 'handler' | 'transport';
}

/** Milliseconds in which a process ends that has nothing more to do; an open connection would keep it for ever. */
const SOON = 8_000;

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
        const ended = once(child, 'exit');
        const [news] = (await once(child, 'message')) as [object];
        expect(news).toEqual({ failed: code });
        const late = pause(SOON, ['late'], { ref: false });
        expect((await Promise.race([ended, late]))[0]).toBe(0);
      } finally {
        child.kill('SIGKILL');
        await database.drop();
      }
    },
    60_000,
  );
});
