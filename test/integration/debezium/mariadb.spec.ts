import { describeDebeziumBeside } from '../../contract/debezium-beside.contract.js';
import { describeDebeziumOnBinlog } from '../../contract/debezium-binlog.contract.js';
import { describeDebezium } from '../../contract/debezium.contract.js';
import { useDebezium } from '../../support/debezium-run.js';
import { KafkaConnect } from '../../support/kafka-connect.js';
import { canStart, startOwnMariaDb, type OwnDatabase } from '../../support/own-database.js';
import { describeUnlessMissing, serviceUrl, type Program, type Service } from '../../support/services.js';

const missing: (Service | Program)[] = [
  ...(canStart.mariadb ? [] : (['mariadb'] as const)),
  ...(serviceUrl('kafka') === undefined ? (['kafka'] as const) : []),
  ...(KafkaConnect.isInstalled ? [] : (['debezium'] as const)),
];

describeUnlessMissing(missing, 'Debezium on MariaDB', () => {
  let own: OwnDatabase;
  const start = useDebezium('mariadb', async () => {
    own = await startOwnMariaDb(['--log-bin=binlog', '--binlog-format=ROW']);
    return own.url;
  });
  afterAll(() => own.stop());

  describeDebezium('mariadb', start);
  describeDebeziumOnBinlog(start);
  describeDebeziumBeside(start);
});
