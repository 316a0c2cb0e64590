import { describeStoreContract } from '../../lib/testing/store-contract/contract.js';
import { postgresStores } from '../support/postgres-stores.js';
import { describeWith } from '../support/services.js';

describeWith('postgres', 'PostgreSQL store', () => {
  describeStoreContract('own schema', postgresStores({ schema: 'messaging', prefix: 'order' }));
  describeStoreContract(
    'unprepared, two connections, commit order',
    postgresStores({ prefix: 'outbox_', pooler: true }, 'strict'),
  );
});
