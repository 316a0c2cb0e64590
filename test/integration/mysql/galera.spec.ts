import { existsSync } from 'node:fs';
import { createConnection, type Connection } from 'mysql2/promise';
import { DataSource } from 'typeorm';
import type { OutboxStore } from '../../../lib/index.js';
import { openStore } from '../../support/open-store.js';
import { freePort } from '../../../bench/support/own-server.js';
import { canStart, startOwnMariaDb, type OwnDatabase } from '../../support/own-database.js';
import { DATABASE, SETTINGS } from '../../support/postgres-store.js';
import { describeUnlessMissing } from '../../support/services.js';

/** Comes with the package of the server. */
const PROVIDER = '/usr/lib/galera/libgalera_smm.so';

describeUnlessMissing(canStart.mariadb && existsSync(PROVIDER) ? [] : ['mariadb'], 'a node of a Galera cluster', () => {
  let server: OwnDatabase;
  let admin: Connection;
  beforeAll(async () => {
    server = await startOwnMariaDb([
      '--wsrep-on=ON',
      `--wsrep-provider=${PROVIDER}`,
      '--wsrep-cluster-address=gcomm://',
      '--wsrep-node-address=127.0.0.1',
      `--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:${await freePort()}`,
      '--wsrep-auto-increment-control=OFF',
      '--binlog-format=ROW',
    ]);
    admin = await createConnection(server.url);
  });
  afterAll(async () => {
    await admin?.end();
    server?.stop();
  });

  async function store<T>(work: (one: OutboxStore) => Promise<T>): Promise<T> {
    const application = await new DataSource({ type: 'mariadb', url: server.url, timezone: 'Z' }).initialize();
    const one = openStore(application, { ...SETTINGS, onPublished: 'delete', options: DATABASE });
    try {
      return await work(one);
    } finally {
      await one.close();
      await application.destroy();
    }
  }

  it('A5: is refused where there is an order, also with an increment of 1, until somebody says that one is written to', async () => {
    const [[size]] = (await admin.query(`show status like 'wsrep_cluster_size'`)) as unknown as [[{ Value: string }]];
    const [[{ increment }]] = (await admin.query('select @@auto_increment_increment as increment')) as unknown as [
      [{ increment: number }],
    ];
    expect([size.Value, increment]).toEqual(['1', 1]);
    const refusal = {
      code: 'UNSUPPORTED_DATABASE',
      message: expect.stringMatching(
        /^wsrep_on is ON \(Galera\): several servers deal out numbers, .* Use ordering: 'none'/,
      ),
    };
    await store((one) => expect(one.setup.create(SETTINGS)).rejects.toMatchObject(refusal));
    await store((one) => one.setup.create({ ...SETTINGS, ordering: 'none' }));
    await store((one) => expect(one.setup.check(SETTINGS)).rejects.toMatchObject(refusal));
    await admin.query(`insert into outbox_meta (name, value) values ('one_writer', 'yes')`);
    await admin.query(`update outbox_meta set value = 'key' where name = 'ordering'`);
    await store((one) => one.setup.check(SETTINGS));
  });
});
