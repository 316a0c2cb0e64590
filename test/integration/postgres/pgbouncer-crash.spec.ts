import pg from 'pg';
import { DataSource } from 'typeorm';
import { openStore } from '../../support/open-store.js';
import type { PostgresStore } from '../../../lib/store/postgres/store.js';
import { canStart, startOwnPostgres, type OwnPostgres } from '../../support/own-database.js';
import { PgBouncer } from '../../support/pgbouncer.js';
import { DATABASE, SETTINGS } from '../../support/postgres-store.js';
import { describeUnlessMissing } from '../../support/services.js';
import { until } from '../../support/until.js';

const missing = [
  ...(canStart.postgres ? [] : (['postgres'] as const)),
  ...(PgBouncer.isInstalled ? [] : (['pgbouncer'] as const)),
];

/** A write-ahead log writer that is killed: all sessions end, the server itself does not, and nor does its start change. */
async function killOneProcess({ url }: OwnPostgres): Promise<void> {
  const client = new pg.Client(url);
  client.on('error', () => undefined);
  await client.connect();
  const { rows } = await client.query<{ pid: number }>(
    `select pid from pg_stat_activity where backend_type = 'walwriter'`,
  );
  const ended = new Promise<void>((resolve) => client.once('end', () => resolve()));
  process.kill(rows[0]!.pid, 'SIGKILL');
  await ended;
}

/** It recovers first. Asked past the pooler, through which a statement would be caught by the end of its session. */
const answers = ({ url }: OwnPostgres): Promise<boolean> =>
  new DataSource({ type: 'postgres', url }).initialize().then(
    (dataSource) => dataSource.destroy().then(() => true),
    () => false,
  );

describeUnlessMissing(missing, 'a server that crashes behind PgBouncer', () => {
  let server: OwnPostgres;
  let pooler: PgBouncer;
  let application: DataSource;
  let store: PostgresStore;
  beforeAll(async () => {
    server = await startOwnPostgres();
    pooler = await PgBouncer.start(server.url, 'transaction');
    application = await new DataSource({ type: 'postgres', url: pooler.through(server.url) }).initialize();
    store = openStore(application, { ...SETTINGS, onPublished: 'delete', options: DATABASE }) as PostgresStore;
    await store.setup.create(SETTINGS);
    await store.setup.transports(['default'], 'default');
  });
  afterAll(async () => {
    await store?.close();
    await application?.destroy().catch(() => undefined);
    pooler?.stop();
    server?.stop();
  });

  const session = async (): Promise<number> => {
    const positions = [{ bucket: 0, after: '0' }];
    return (await store.ready.fetch({ transport: 0, positions, perBucket: 1, limit: 1 })).session as number;
  };

  it.each([
    ['one of its processes is killed', () => killOneProcess(server)],
    ['it is started again', async () => server.crash()],
  ])('W5: what was read before is not taken to be on disk: %s', async (_, crash) => {
    const before = await session();
    await store.ready.flush(before);
    const { open } = store.database.connection('read') as unknown as { open: unknown };
    await crash();
    await until(() => answers(server), 60_000);
    await expect(store.ready.flush(before)).rejects.toThrow('The session that read these messages is over');
    expect((store.database.connection('read') as unknown as { open: unknown }).open).toBe(open); // the pooler kept ours
    await store.ready.flush(await session());
  });
});
