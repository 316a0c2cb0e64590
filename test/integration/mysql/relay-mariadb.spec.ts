import { describeOutage } from '../../contract/outage.contract.js';
import { describeLargePayloads } from '../../contract/large-payloads.contract.js';
import { describeCoordination } from '../../contract/relay-coordination.contract.js';
import { describeOrder } from '../../contract/relay-order.contract.js';
import { describeRelay } from '../../contract/relay.contract.js';
import { describeWith } from '../../support/services.js';

describeWith('mariadb', 'relay on MariaDB', () => describeRelay('mariadb'));
describeWith('mariadb', 'the order of what is parked, on MariaDB', () => describeOrder('mariadb'));
describeWith('mariadb', 'coordination on MariaDB', () => describeCoordination('mariadb'));
describeWith('mariadb', 'a broker that takes no writes, on MariaDB', () => describeOutage('mariadb'));
describeWith('mariadb', 'large payloads on MariaDB', () => describeLargePayloads('mariadb'));
