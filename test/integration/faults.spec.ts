import { describeFaults } from '../contract/faults.contract.js';
import { describeWith } from '../support/services.js';

describeWith('postgres', 'faults of the relay and of PostgreSQL', () => describeFaults('postgres'));
describeWith('mariadb', 'faults of the relay and of MariaDB', () => describeFaults('mariadb'));
