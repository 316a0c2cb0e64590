import { describeStoreContract } from '../../lib/testing/store-contract.js';
import { MariaDbStores } from '../support/mariadb-store.js';
import { describeWith } from '../support/services.js';

/** Everything that might go wrong with the caller's session: far from UTC, a narrow charset, other quotes, no escapes. */
const SESSION = `set session time_zone = '+05:45', sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES'`;
const NARROW = {
  charset: 'LATIN1_SWEDISH_CI',
  timezone: '+05:45',
  supportBigNumbers: false,
  bigNumberStrings: false,
  dateStrings: false,
};

describeWith('mariadb', 'MariaDB store', () => {
  describeStoreContract('four connections', new MariaDbStores({ prefix: 'order' }));
  describeStoreContract(
    'an odd session, two connections, commit order',
    new MariaDbStores({ poolSize: 2, ordering: 'strict' }, SESSION, NARROW),
  );
  describeStoreContract('no order', new MariaDbStores({ ordering: 'none' }));
  describeStoreContract('a global order', new MariaDbStores({ ordering: 'global' }));
});
