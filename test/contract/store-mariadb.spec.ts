import { describeStoreContract } from '../../lib/testing/store-contract.js';
import { BoundedMariaDbStores, MariaDbStores } from '../support/mariadb-store.js';
import { NARROW, ODD_SESSION } from '../support/mysql-contract.js';
import { describeWith } from '../support/services.js';

describeWith('mariadb', 'MariaDB store', () => {
  describeStoreContract('four connections', new MariaDbStores('mariadb', { prefix: 'order' }));
  describeStoreContract(
    'an odd session, two connections, commit order',
    new MariaDbStores('mariadb', { poolSize: 2, ordering: 'strict' }, ODD_SESSION, NARROW),
  );
  describeStoreContract('no order', new MariaDbStores('mariadb', { ordering: 'none' }));
  describeStoreContract('reads by whole buckets', new BoundedMariaDbStores('mariadb'));
  describeStoreContract('a global order', new MariaDbStores('mariadb', { ordering: 'global' }));
});
