import { describeDebeziumBeside } from '../../contract/debezium-beside.contract.js';
import { describeDebeziumOnBinlog } from '../../contract/debezium-binlog.contract.js';
import { describeDebeziumStops } from '../../contract/debezium-stops.contract.js';
import { describeDebezium } from '../../contract/debezium.contract.js';
import { useDebezium } from '../../support/debezium-run.js';
import { KafkaConnect } from '../../support/kafka-connect.js';
import { describeUnlessMissing, requiredUrl, serviceUrl, type Program, type Service } from '../../support/services.js';

const missing: (Service | Program)[] = [
  ...(['mysql', 'kafka'] as const).filter((service) => serviceUrl(service) === undefined),
  ...(KafkaConnect.isInstalled ? [] : (['debezium'] as const)),
];

describeUnlessMissing(missing, 'Debezium on MySQL', () => {
  const start = useDebezium('mysql', async () => requiredUrl('mysql'));

  describeDebezium('mysql', start);
  describeDebeziumStops(start);
  describeDebeziumOnBinlog(start);
  describeDebeziumBeside(start);
});
