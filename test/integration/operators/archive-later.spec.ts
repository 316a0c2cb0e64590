import { DataSource } from 'typeorm';
import { OutboxCleaner, OutboxDispatcher, OutboxModule, OutboxService } from '../../../lib/index.js';
import { build, CollectingTransport, OrderPlaced, quiet, typeOrm, useApplications } from '../../nest/support/app.js';
import { describeWith, DATABASES } from '../../support/services.js';
import { until } from '../../support/until.js';

const KEYS = 7;
/** Of each deployment, so that it has published under load. */
const ENOUGH = 60;

describe.each(DATABASES)('`onPublished` that changes while messages are written, on %s', (kind) => {
  describeWith(kind, kind, () => {
    const { applications, database } = useApplications(kind, 'test');

    /** One deployment: its relay runs beside that of the one before, as in a rolling update. */
    async function deploy(onPublished: 'delete' | 'archive') {
      const transport = new CollectingTransport();
      const options = quiet({ transports: { default: transport }, relay: 'manual', onPublished, lease: '60s', publishTimeout: '10s' }); // prettier-ignore
      const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(options)]));
      await app.get(OutboxDispatcher).start();
      return { app, ids: transport.ids };
    }

    /** Enqueues all the time, until it is told to stop. */
    async function write() {
      const app = await applications.start(build([typeOrm(database), OutboxModule.forRoot(quiet({ relay: false }))]));
      const outbox = app.get(OutboxService);
      const written: string[] = [];
      let going = true;
      const done = (async () => {
        for (let n = 0; going; n += 5) {
          const events = Array.from({ length: 5 }, (_, i) => new OrderPlaced(`k${(n + i) % KEYS}`));
          written.push(...(await outbox.enqueueOutsideTransaction(events)));
        }
      })();
      return { db: app.get(DataSource), written, stop: async () => ((going = false), done) };
    }

    it('each message is deleted or archived by the relay that published it, and none is lost or sent twice', async () => {
      const before = await deploy('delete');
      const { db, written, stop } = await write();
      const archived = async (): Promise<string[]> => {
        const rows = (await db.query(`select id from outbox_messages where state = 'published'`)) as { id: string }[];
        return rows.map(({ id }) => id).sort();
      };
      await until(() => before.ids.length > ENOUGH);
      expect(await archived()).toEqual([]);

      const archiving = await deploy('archive');
      await until(() => archiving.ids.length > ENOUGH);
      await before.app.close();
      const alone = archiving.ids.length;
      await until(() => archiving.ids.length > alone + ENOUGH);

      const after = await deploy('delete');
      await until(() => after.ids.length > ENOUGH);
      await archiving.app.close();
      await stop();
      await until(async () => Number((await db.query('select count(*) as n from outbox_ready'))[0].n) === 0);

      const published = [...before.ids, ...archiving.ids, ...after.ids];
      expect(published.sort()).toEqual([...written].sort());
      expect(await archived()).toEqual([...archiving.ids].sort());
      const cleaned = await after.app.get(OutboxCleaner).runOnce({ before: new Date(Date.now() + 60_000) });
      expect(cleaned).toMatchObject({ published: archiving.ids.length });
      expect(await archived()).toEqual([]);
    });
  });
});
