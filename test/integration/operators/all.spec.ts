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

    it('O1: a filter takes all that it names, and a limit says that it left some out', async () => {
      const outbox = db.outbox();
      const messages = Array.from({ length: 2_500 }, () => ({ type: 'reminder', key: null, payload: 1, delay: LATER }));
      await outbox.enqueueOutsideTransaction(messages);
      expect(await outbox.cancel({ type: 'reminder' }, { dryRun: true })).toEqual({ count: 2_500 });
      expect(await outbox.cancel({ type: 'reminder' }, { limit: 200 })).toMatchObject({ done: 200, more: true });
      expect(await outbox.cancel({ type: 'reminder' })).toMatchObject({ done: 2_300, more: false });
      expect(await db.rows()).toEqual([]);
    });

    it('O1: a limit tells also of what is ready that it left some out', async () => {
      const outbox = db.outbox();
      await outbox.enqueueOutsideTransaction(Array.from({ length: 5 }, () => ({ type: 'now', key: null, payload: 1 })));
      await outbox.enqueueOutsideTransaction({ type: 'now', key: null, payload: 1, delay: LATER });
      expect(await outbox.cancel({ type: 'now' }, { limit: 1 })).toMatchObject({ done: 1, more: true });
      expect(await outbox.cancel({ type: 'now' }, { limit: 3 })).toMatchObject({ done: 3, more: true });
      expect(await outbox.cancel({ type: 'now' }, { limit: 2 })).toMatchObject({ done: 2, more: false });
    });

    it('O2: a transport that left the options is named, and emptied by its name', async () => {
      const before = db.outbox();
      const messages = Array.from({ length: 600 }, (_, n) => ({ type: 'audit', key: `k${n % 7}`, payload: n }));
      await before.enqueueOutsideTransaction(messages, { transport: 'other' });
      const left = new Map([...db.transportIds].filter(([name]) => name !== 'other'));
      const after = db.outbox({ transportIds: left });
      expect((await readStats(db.store, left)).transports['other']).toMatchObject({
        ready: 600,
        configured: false,
      });
      expect(await after.cancel({ transport: 'other' })).toMatchObject({ done: 600, skipped: 0 });
      expect(await db.rows()).toEqual([]);
    });
  });
});
