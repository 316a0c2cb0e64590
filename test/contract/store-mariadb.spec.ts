import { describeMysqlStore } from '../support/mysql-contract.js';

describeMysqlStore('mariadb', 'MariaDB store');
