import { newPassword } from './containers.mjs';
import { serverVersion } from './mariadb.mjs';
import { startMysqlServer } from './mysql-server.mjs';

const NEW = '8.0.31';

export const mysql = {
  name: 'mysql',
  variable: 'OUTBOX_TEST_MYSQL_URL',
  local: 'mysql://root@127.0.0.1:3308/mysql',
  probe: (url) => probe(url),
  version: serverVersion,
  container: (parts) => container(parts, NEW),
  own: () => startMysqlServer(NEW),
};

/** Logs in and asks; throws when that fails, or the server is another product or another version than the one asked for. */
export async function probe(url, only) {
  const { createConnection } = await import('mysql2/promise');
  const connection = await createConnection({ uri: url, connectTimeout: 15_000 });
  connection.on('error', () => {});
  try {
    const [[{ version }]] = await connection.query('select version() as version');
    if (/mariadb/i.test(version)) throw new Error(`${version} is not MySQL`);
    if (only !== undefined && !version.startsWith(only)) throw new Error(`${version} is not ${only}`);
    const [major] = version.split('.').map(Number);
    if (major < 8) throw new Error(`${version} is too old`);
  } finally {
    connection.destroy();
  }
}

export async function container({ GenericContainer, Wait }, version) {
  const password = newPassword();
  const started = await new GenericContainer(`mysql:${version}`)
    .withEnvironment({ MYSQL_ROOT_PASSWORD: password, MYSQL_ROOT_HOST: '%' })
    .withExposedPorts(3306)
    .withWaitStrategy(Wait.forLogMessage(/port: 3306/))
    .start();
  const url = `mysql://root:${password}@${started.getHost()}:${started.getMappedPort(3306)}/mysql`;
  return { url, stop: () => started.stop() };
}
