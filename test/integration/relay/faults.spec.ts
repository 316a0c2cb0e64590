import { describeDatabaseFaults } from '../../contract/database-faults.contract.js';
import { describeFaults } from '../../contract/faults.contract.js';
import { describeWith, DATABASES } from '../../support/services.js';

describe.each(DATABASES)('%s', (kind) => {
  describeWith(kind, 'faults of the relay', () => describeFaults(kind));
  describeWith(kind, 'faults of the database', () => describeDatabaseFaults(kind));
});
