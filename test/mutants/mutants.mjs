import { BULK } from './bulk.mjs';
import { BY_CHAOS } from './by-chaos.mjs';
import { CLAIM } from './claim.mjs';
import { COMMAND_LINE } from './command-line.mjs';
import { CONSUMERS } from './consumers.mjs';
import { CONTENT } from './content.mjs';
import { DESTINATIONS } from './destinations.mjs';
import { DOCTOR } from './doctor.mjs';
import { EDIT } from './edit.mjs';
import { ENQUEUE } from './enqueue.mjs';
import { FIRST_DAY } from './first-day.mjs';
import { GROWTH } from './growth.mjs';
import { HANDLERS } from './handlers.mjs';
import { HANDS } from './hands.mjs';
import { HEALTH } from './health.mjs';
import { HELD } from './held.mjs';
import { INIT } from './init.mjs';
import { KAFKA } from './kafka.mjs';
import { LEASES } from './leases.mjs';
import { MARIADB } from './mariadb.mjs';
import { MARK } from './mark.mjs';
import { MYSQL } from './mysql.mjs';
import { NEST } from './nest.mjs';
import { NUMBERS } from './numbers.mjs';
import { PARTITIONS } from './partitions.mjs';
import { PAUSES } from './pauses.mjs';
import { POOLER } from './pooler.mjs';
import { PUBLISH } from './publish.mjs';
import { RABBITMQ } from './rabbitmq.mjs';
import { REPLAY } from './replay.mjs';
import { RIGHTS } from './rights.mjs';
import { SETTLE } from './settle.mjs';
import { SIMULATED } from './simulated.mjs';
import { SNAPSHOTS } from './snapshots.mjs';
import { STORE } from './store.mjs';
import { STRICT } from './strict.mjs';
import { TRACING } from './tracing.mjs';

/**
 * Bugs to plant: in `file`, `from` becomes `to`.
 * `simulation`: false where it cannot see it; `noScan`: true where it sees it only when nobody looks at everything;
 * `contract`: a spec that must fail, for bugs inside one statement; `tests`: those of it that are asked, by name;
 * `chaos`: the servers of its short chaos run (default PostgreSQL and RabbitMQ) with their `ordering` (default `key`), `noScan` as above,
 * its `faults` (default all) and the `signs` of which it may be convicted (default those of `verdicts.mjs`), or false where chaos cannot see it;
 * `every`: true where all of its layers must convict it, and not only the first that can: they show that each of these sees anything.
 *
 * Row locks that are held while somebody publishes are planted where rows are locked at all: in the taking of parked rows. What is ready
 * is claimed by a plain read under a lease, which locks nothing; `coordination: 'rowLock'` is that bug by design.
 * @type {{ name: string, breaks: string, file: string, from: string, to: string, simulation?: false, noScan?: true, chaos?: object | false, contract?: string, tests?: string, every?: true }[]}
 */
export const MUTANTS = [
  ...ENQUEUE,
  ...CLAIM,
  ...PAUSES,
  ...POOLER,
  ...PUBLISH,
  ...SETTLE,
  ...STORE,
  ...BULK,
  ...EDIT,
  ...REPLAY,
  ...MARIADB,
  ...MYSQL,
  ...STRICT,
  ...TRACING,
  ...SIMULATED,
  ...RIGHTS,
  ...PARTITIONS,
  ...CONTENT,
  ...HANDLERS,
  ...NEST,
  ...RABBITMQ,
  ...KAFKA,
  ...NUMBERS,
  ...MARK,
  ...SNAPSHOTS,
  ...DESTINATIONS,
  ...LEASES,
  ...GROWTH,
  ...HANDS,
  ...COMMAND_LINE,
  ...INIT,
  ...CONSUMERS,
  ...HEALTH,
  ...HELD,
  ...FIRST_DAY,
  ...DOCTOR,
  ...BY_CHAOS,
];
