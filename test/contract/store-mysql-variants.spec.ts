// @tier all
import { describeMysqlStoreVariants } from '../support/mysql-contract.js';

describeMysqlStoreVariants('mysql', 'MySQL store, other settings');
