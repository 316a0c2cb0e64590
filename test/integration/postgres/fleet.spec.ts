import { describeFleet } from '../../processes/fleet.contract.js';
import { describeWith, IS_WHOLE } from '../../support/services.js';

describeWith('postgres', 'a fleet of processes on PostgreSQL', () =>
  describeFleet('postgres', IS_WHOLE ? 100_000 : 30_000),
);
