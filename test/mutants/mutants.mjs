import { ENQUEUE } from './enqueue.mjs';
import { HARNESS } from './harness.mjs';
import { LEASES } from './leases.mjs';
import { OPERATORS } from './operators.mjs';
import { ORDER } from './order.mjs';
import { PUBLISH } from './publish.mjs';
import { READ } from './read.mjs';
import { SETTLE } from './settle.mjs';
import { SURROUNDINGS } from './surroundings.mjs';

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
  ...READ,
  ...ORDER,
  ...LEASES,
  ...PUBLISH,
  ...SETTLE,
  ...OPERATORS,
  ...SURROUNDINGS,
  ...HARNESS,
];
