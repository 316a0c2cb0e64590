import { newPassword } from './containers.mjs';

const IMAGE = 'mariadb:11.4';

export const mariadb = {
  name: 'mariadb',
  variable: 'OUTBOX_TEST_MARIADB_URL',
  local: 'mysql://root@127.0.0.1:3306/mysql',

  /** Logs in and asks; throws when that fails or the version is too old. */
  async probe(url) {
    const { createConnection } = await import('mysql2/promise');
    const connection = await createConnection({ uri: url, connectTimeout: 15_000 });
    connection.on('error', () => {});
    try {
      const [[{ version }]] = await connection.query('select version() as version');
      const [major, minor] = version.split('.').map(Number);
      const oldest = /mariadb/i.test(version) ? [10, 6] : [8, 0];
      if (major < oldest[0] || (major === oldest[0] && minor < oldest[1])) throw new Error(`${version} is too old`);
    } finally {
      connection.destroy();
    }
  },

  version: serverVersion,

  async own() {
    await import('../typescript.mjs');
    const { canStart, startOwnMariaDb } = await import('../../test/support/own-database.ts');
    if (!canStart.mariadb) throw new Error('mariadbd is not installed');
    // As Debian sets it up; 256 MB, since the own ones of single tests are small.
    return startOwnMariaDb([
      '--character-set-server=utf8mb4',
      '--collation-server=utf8mb4_general_ci',
      '--innodb-buffer-pool-size=256M',
    ]);
  },

  async container({ GenericContainer, Wait }) {
    const password = newPassword();
    const container = await new GenericContainer(IMAGE)
      .withEnvironment({ MARIADB_ROOT_PASSWORD: password, MARIADB_ROOT_HOST: '%' })
      .withExposedPorts(3306)
      .withWaitStrategy(Wait.forLogMessage(/port: 3306/))
      .start();
    const url = `mysql://root:${password}@${container.getHost()}:${container.getMappedPort(3306)}/mysql`;
    return { url, stop: () => container.stop() };
  },
};

/** What the server at `url` says: 10.11.6. */
export async function serverVersion(url) {
  const { createConnection } = await import('mysql2/promise');
  const connection = await createConnection({ uri: url, connectTimeout: 15_000 });
  const [[{ version }]] = await connection.query('select version() as version').finally(() => connection.end());
  return version.replace(/-.*$/, '');
}
