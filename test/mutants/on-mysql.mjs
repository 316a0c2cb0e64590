import { existsSync } from 'node:fs';

/** What MariaDB and MySQL share, and what is MySQL's own. */
const LAYER = /^lib\/(store|data-layers\/typeorm)\/mysql/;
const STORE = 'test/contract/store-mysql.spec.ts';

/**
 * The bugs of the layer that MariaDB and MySQL share, before the tests that run on MySQL: of a file for several servers those that
 * name it, of the store's contract the first of its four ways. Other layers do not judge: they have no MySQL. `onMysql: false` is
 * said of what MySQL has not.
 */
export function onMysql(mutants) {
  return mutants
    .filter(({ onMysql: applies = true }) => applies)
    .filter(({ file, contract }) => LAYER.test(file) && contract !== undefined && !contract.startsWith('test/unit/'))
    .map((mutant) => {
      const contract = ownSpec(mutant.contract);
      const tests = contract === STORE ? 'contract: four connections' : 'MySQL';
      return { ...mutant, contract, tests, simulation: false, chaos: false, every: false };
    });
}

function ownSpec(contract) {
  const own = contract.replace('-mariadb.', '-mysql.');
  return existsSync(own) ? own : contract;
}
