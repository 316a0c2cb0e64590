import { describeRelay } from '../contract/relay.contract.js';
import { describeWith } from '../support/services.js';

describeWith('postgres', 'relay on PostgreSQL', () => describeRelay('postgres'));
