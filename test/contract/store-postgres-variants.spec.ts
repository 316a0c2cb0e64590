// @tier all
import { describeStoreContract } from '../../lib/testing/store-contract/contract.js';
import { PgBouncer } from '../support/pgbouncer.js';
import { postgresStores } from '../support/postgres-stores.js';
import { describeUnlessMissing, describeWith } from '../support/services.js';

const PREPARED = { prefix: 'outbox_' };

describeWith('postgres', 'PostgreSQL store, other settings', () => {
  describeStoreContract('no order', postgresStores(PREPARED, 'none'));
  describeStoreContract('a global order', postgresStores(PREPARED, 'global'));
  describeUnlessMissing(PgBouncer.isInstalled ? [] : ['pgbouncer'], 'through PgBouncer', () => {
    describeStoreContract('transaction mode, commit order', postgresStores(PREPARED, 'strict', true));
  });
});
