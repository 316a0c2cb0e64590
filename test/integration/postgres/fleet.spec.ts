import { describeFleet } from '../../processes/fleet.contract.js';
import { describeWith } from '../../support/services.js';

describeWith('postgres', 'a fleet of processes on PostgreSQL', () => describeFleet('postgres'));
