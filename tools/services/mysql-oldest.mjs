import { serverVersion } from './mariadb.mjs';
import { container, probe } from './mysql.mjs';
import { startMysqlServer } from './mysql-server.mjs';

/** No server that is packed for Maven is older; the README names no older one as tested. */
const VERSION = '8.0.15';

/** Not among those that `tools/test.mjs` starts: it is a cell of the matrix. */
export const mysqlOldest = {
  name: 'mysql-oldest',
  variable: 'OUTBOX_TEST_MYSQL_URL',
  local: 'mysql://root@127.0.0.1:3309/mysql',
  probe: (url) => probe(url, VERSION),
  version: serverVersion,
  container: (parts) => container(parts, VERSION),
  own: () => startMysqlServer(VERSION),
};
