// @tier all
import { describeMysqlStoreVariants } from '../support/mysql-contract.js';

describeMysqlStoreVariants('mariadb', 'MariaDB store, other settings');
