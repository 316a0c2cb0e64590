// @tier gate
import { readStats } from '../../../lib/observe/stats.js';
import { createEnqueueDatabase, type EnqueueDatabase } from '../../support/enqueue-database.js';
import { describeWith, DATABASES } from '../../support/services.js';

const LATER = '1h';

describe.each(DATABASES)('Operators on %s', (kind) => {
  describeWith(kind, 'do all that they say', () => {
    let db: EnqueueDatabase;
    beforeAll(async () => {
      db = await createEnqueueDatabase(kind);
    });
    afterAll(() => db?.drop());
    beforeEach(() => db.clear());

    it('O1: a filter takes all that it names, and a limit says how many it left out', async () => {
      const outbox = db.outbox();
      const messages = Array.from({ length: 2_500 }, () => ({ type: 'reminder', key: null, payload: 1, delay: LATER }));
      await outbox.enqueueOutsideTransaction(messages);
      const some = await outbox.cancel({ type: 'reminder', limit: 200 });
      expect([some.done.length, some.left]).toEqual([200, 2_300]);
      const { done, tooLate, left } = await outbox.cancel({ type: 'reminder' });
      expect([done.length, tooLate, left]).toEqual([2_300, [], 0]);
      expect(await db.rows()).toEqual([]);
    });

    it('O2: a transport that left the options is named, and emptied by its name', async () => {
      const before = db.outbox();
      const messages = Array.from({ length: 600 }, (_, n) => ({ type: 'audit', key: `k${n % 7}`, payload: n }));
      await before.enqueueOutsideTransaction(messages, { transport: 'other' });
      const left = new Map([...db.transportIds].filter(([name]) => name !== 'other'));
      const after = db.outbox({ transportIds: left });
      expect((await readStats(db.store.admin, left)).transports['other']).toMatchObject({
        ready: 600,
        configured: false,
      });
      const { done, tooLate } = await after.cancel({ transport: 'other' });
      expect([done.length, tooLate]).toEqual([600, []]);
      expect(await db.rows()).toEqual([]);
    });
  });
});
