import { startMariadb } from '../../../bench/support/mariadb.js';
import { Closing } from '../../../bench/support/run.js';
import { describeCommitOrder } from '../../contract/commit-order.contract.js';
import { createHarness } from '../../support/relay.js';

describe('a strict order on MariaDB', () => {
  const closing = new Closing();
  let server: string;
  beforeAll(async () => {
    const small = ['--innodb-buffer-pool-size=64M', '--innodb-log-file-size=32M'];
    const flags = [...small, '--log-bin=binlog', '--server-id=1', '--binlog-format=ROW', '--sync-binlog=1'];
    server = (await startMariadb(closing, flags)).url;
  });
  afterAll(() => closing.all());

  describeCommitOrder((ordering) => createHarness('mariadb', { ordering, coordination: 'leader' }, server));
});
