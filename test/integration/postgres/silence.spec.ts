import { DataSource } from 'typeorm';
import type { SqlConnection, SqlDatabase } from '../../../lib/store/executor.js';
import { openPostgresDatabase } from '../../../lib/data-layers/typeorm/postgres.js';
import { statement } from '../../../lib/store/sql.js';
import { DATABASE, PostgresFixture, SETTINGS, until } from '../../support/postgres-store.js';
import { describeWith } from '../../support/services.js';
import { TcpProxy } from '../../support/tcp-proxy.js';

const one = (text: string) => statement(undefined, text).bind();

describeWith('postgres', 'a PostgreSQL that falls silent', () => {
  const fixture = new PostgresFixture();
  beforeAll(() => fixture.start());
  afterAll(() => fixture.stop());

  /** With a database behind a proxy, and little patience. */
  async function behindProxy(work: (proxy: TcpProxy, database: SqlDatabase) => Promise<void>) {
    const proxy = await TcpProxy.start(fixture.database.url);
    const url = new URL(fixture.database.url);
    url.port = String(proxy.port);
    const application = await new DataSource({ type: 'postgres', url: url.href }).initialize();
    const database = openPostgresDatabase(application, {
      ...SETTINGS,
      ...DATABASE,
      onPublished: 'delete',
      statementTimeout: 1_000,
      idleWithLocks: 30_000,
      connectTimeout: 5_000,
    });
    try {
      await work(proxy, database);
    } finally {
      proxy.heal();
      await database.close();
      await application.destroy();
      await proxy.close();
    }
  }

  /** An answer may take longer than the patience lasts. */
  const answer = (connection: SqlConnection, text: string) =>
    until('an answer', () => connection.run(one(text)).catch(() => undefined));

  it('gives up on a server that does not answer, and opens another connection', () =>
    behindProxy(async (proxy, database) => {
      const connection = database.connection('read');
      await answer(connection, 'select 1');
      const { generation } = connection;
      proxy.set({ down: 'drop' });
      const answers = Promise.allSettled([1, 2].map((n) => connection.run(one(`select ${n}`))));
      expect((await answers).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
      proxy.heal();
      await answer(connection, 'select 3');
      expect(connection.generation).toBeGreaterThan(generation);
    }));

  it('opens another connection, too, when the server is silent right after the login', () =>
    behindProxy(async (proxy, database) => {
      const up = (bytes: Buffer): Buffer => {
        if (bytes.includes('enable_seqscan')) proxy.set({ down: 'drop' });
        return bytes;
      };
      proxy.intercept = () => ({ up, down: (bytes) => bytes });
      const connection = database.connection('read');
      await expect(connection.run(one('select 1'))).rejects.toThrow('timeout');
      proxy.intercept = () => ({ up: (bytes) => bytes, down: (bytes) => bytes });
      proxy.heal();
      expect((await answer(connection, 'select 2')).rows).toEqual([['2']]);
    }));
});
