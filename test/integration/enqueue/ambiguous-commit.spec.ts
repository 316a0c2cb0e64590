import { DataSource } from 'typeorm';
import { createEnqueueDatabase, type EnqueueDatabase } from '../../support/enqueue-database.js';
import { refusal } from '../../support/enqueue.js';
import { requiredUrl, describeOnEach } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { until } from '../../support/until.js';
import { TypeOrm } from '../../../lib/data-layers/typeorm/typeorm.js';
import { OutboxService } from '../../../lib/index.js';
import { uuidV7 } from '../../../lib/message/uuid-v7.js';

describeOnEach([], 'a commit without an answer, and the request that is repeated', (kind) => {
  let db: EnqueueDatabase;
  let proxy: TcpProxy;
  let application: DataSource;
  let outbox: OutboxService;
  beforeAll(async () => {
    db = await createEnqueueDatabase(kind);
    proxy = await TcpProxy.start(requiredUrl(kind));
    application = await new DataSource({ ...through(db.dataSource, proxy), poolSize: 2 } as never).initialize();
    outbox = db.outbox({ dataLayer: new TypeOrm(application) });
  });
  beforeEach(() => db.clear());
  afterAll(async () => {
    await application?.destroy();
    await proxy?.close();
    await db?.drop();
  });

  /** The request: its id comes from the client, so that it can be sent again. */
  const request = (id: string, beforeCommit = () => Promise.resolve()): Promise<void> =>
    application.transaction(async (manager) => {
      await outbox.enqueue({ type: 'm', payload: 1 }, { manager, id });
      await db.addThing(manager);
      await beforeCommit();
    });

  it('A11: the COMMIT arrived, its answer did not: the row is there once, and the repetition is told so', async () => {
    const id = uuidV7();
    let up = 0;
    const first = request(id, async () => {
      proxy.set({ down: 'hold' });
      up = proxy.bytesUp;
    });
    await until(() => up > 0 && proxy.bytesUp > up);
    await until(async () => (await db.rows()).length === 1);
    proxy.cut();
    await expect(first).rejects.toThrow();
    proxy.heal();
    expect((await refusal(() => request(id))).code).toBe('DUPLICATE_MESSAGE');
    expect([(await db.rows()).map((row) => row.id), await db.things()]).toEqual([[id], 1]);
  });

  it('A11: the COMMIT itself got lost: nothing is there, and the repetition writes it', async () => {
    const id = uuidV7();
    const first = request(id, async () => {
      proxy.set({ up: 'drop' });
      setImmediate(() => proxy.cut());
    });
    await expect(first).rejects.toThrow();
    proxy.heal();
    // The server rolls back when it hears of the end of the connection; until then the id's row is locked.
    await request(id);
    expect([(await db.rows()).map((row) => row.id), await db.things()]).toEqual([[id], 1]);
  });
});

function through({ options }: DataSource, proxy: TcpProxy): object {
  const url = new URL((options as { url: string }).url);
  url.host = `${proxy.host}:${proxy.port}`;
  return { ...options, url: url.href };
}
