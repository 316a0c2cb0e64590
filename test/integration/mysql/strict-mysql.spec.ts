import { describeCommitOrder } from '../../contract/commit-order.contract.js';
import { canStartMysql, startOwnMysql, type MysqlNode } from '../../support/mysql-node.js';
import { createHarness } from '../../support/relay.js';
import { describeUnlessMissing } from '../../support/services.js';

describeUnlessMissing(canStartMysql() ? [] : ['mysql'], 'a strict order on MySQL', () => {
  let server: MysqlNode;
  beforeAll(async () => {
    // The texts of the statements, which its binary log holds by itself only for the format STATEMENT.
    server = await startOwnMysql(['--binlog-rows-query-log-events=ON']);
  });
  afterAll(() => server?.stop());

  describeCommitOrder((ordering) => createHarness('mysql', { ordering, coordination: 'leader' }, server.url));
});
