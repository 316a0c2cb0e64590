import { describeStoreContract } from '../../lib/testing/index.js';
import { BoundedMariaDbStores, MariaDbStores } from './mariadb-store.js';
import { describeWith } from './services.js';

/** Everything that might go wrong with the caller's session: far from UTC, a narrow charset, other quotes, no escapes. */
export const ODD_SESSION = `set session time_zone = '+05:45', sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_TRANS_TABLES'`;
export const NARROW = {
  charset: 'LATIN1_SWEDISH_CI',
  timezone: '+05:45',
  supportBigNumbers: false,
  bigNumberStrings: false,
  dateStrings: false,
};

/** What every change passes. */
export function describeMysqlStore(kind: 'mariadb' | 'mysql', name: string): void {
  describeWith(kind, name, () => {
    describeStoreContract('four connections', new MariaDbStores(kind, { prefix: 'order' }));
    describeStoreContract(
      'an odd session, two connections, commit order',
      new MariaDbStores(kind, { ordering: 'strict' }, ODD_SESSION, NARROW),
    );
  });
}

/** The settings that the store knows beside those. */
export function describeMysqlStoreVariants(kind: 'mariadb' | 'mysql', name: string): void {
  describeWith(kind, name, () => {
    describeStoreContract('no order', new MariaDbStores(kind, { ordering: 'none' }));
    describeStoreContract('reads by whole buckets', new BoundedMariaDbStores(kind));
    describeStoreContract('a global order', new MariaDbStores(kind, { ordering: 'global' }));
  });
}
