import { describeFleet } from '../../processes/fleet.contract.js';
import { describeWith, IS_WHOLE } from '../../support/services.js';

describeWith('mysql', 'a fleet of processes on MySQL', () => describeFleet('mysql', IS_WHOLE ? 100_000 : 10_000));
