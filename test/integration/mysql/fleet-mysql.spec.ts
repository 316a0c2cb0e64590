import { describeFleet } from '../../processes/fleet.contract.js';
import { describeWith } from '../../support/services.js';

describeWith('mysql', 'a fleet of processes on MySQL', () => describeFleet('mysql', 20_000));
