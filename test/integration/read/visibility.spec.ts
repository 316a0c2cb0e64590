import { describeVisibility } from '../../contract/visibility.contract.js';
import { describeWith } from '../../support/services.js';

describeWith('postgres', 'late commits on PostgreSQL', () => describeVisibility('postgres'));
describeWith('mariadb', 'late commits on MariaDB', () => describeVisibility('mariadb'));
describeWith('mysql', 'late commits on MySQL', () => describeVisibility('mysql'));
