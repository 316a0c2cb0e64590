// @tier gate
import { describeOutage } from '../../contract/outage.contract.js';
import { describeLargePayloads } from '../../contract/large-payloads.contract.js';
import { describeCoordination } from '../../contract/relay-coordination.contract.js';
import { describeOrder } from '../../contract/relay-order.contract.js';
import { describeRelay } from '../../contract/relay.contract.js';
import { describeWith } from '../../support/services.js';

describeWith('postgres', 'relay on PostgreSQL', () => describeRelay('postgres'));
describeWith('postgres', 'the order of what is parked, on PostgreSQL', () => describeOrder('postgres'));
describeWith('postgres', 'coordination on PostgreSQL', () => describeCoordination('postgres'));
describeWith('postgres', 'a broker that takes no writes, on PostgreSQL', () => describeOutage('postgres'));
describeWith('postgres', 'large payloads on PostgreSQL', () => describeLargePayloads('postgres'));
