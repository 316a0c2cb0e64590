import { describeFleet } from '../../processes/fleet.contract.js';
import { describeWith } from '../../support/services.js';

describeWith('mariadb', 'a fleet of processes on MariaDB', () => describeFleet('mariadb'));
