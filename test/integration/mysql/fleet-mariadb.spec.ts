import { describeFleet } from '../../processes/fleet.contract.js';
import { describeWith, IS_WHOLE } from '../../support/services.js';

describeWith('mariadb', 'a fleet of processes on MariaDB', () => describeFleet('mariadb', IS_WHOLE ? 100_000 : 10_000));
