import { describeMysqlStore } from '../support/mysql-contract.js';

describeMysqlStore('mysql', 'MySQL store');
