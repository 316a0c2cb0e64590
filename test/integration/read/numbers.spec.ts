import { describeNumbers } from '../../contract/numbers.contract.js';
import { describeWith } from '../../support/services.js';

describeWith('postgres', 'numbers that go back on PostgreSQL', () => describeNumbers('postgres'));
describeWith('mariadb', 'numbers that go back on MariaDB', () => describeNumbers('mariadb'));
describeWith('mysql', 'numbers that go back on MySQL', () => describeNumbers('mysql'));
