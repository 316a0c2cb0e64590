import { describeLargePayloads } from '../../contract/large-payloads.contract.js';
import { describeOutage } from '../../contract/outage.contract.js';
import { describeCoordination } from '../../contract/relay-coordination.contract.js';
import { describeOrder } from '../../contract/relay-order.contract.js';
import { describeRelay } from '../../contract/relay.contract.js';
import { describeWith } from '../../support/services.js';

describeWith('mysql', 'relay on MySQL', () => describeRelay('mysql'));
describeWith('mysql', 'the order of what is parked, on MySQL', () => describeOrder('mysql'));
describeWith('mysql', 'coordination on MySQL', () => describeCoordination('mysql'));
describeWith('mysql', 'a broker that takes no writes, on MySQL', () => describeOutage('mysql'));
describeWith('mysql', 'large payloads on MySQL', () => describeLargePayloads('mysql'));
