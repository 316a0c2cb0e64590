/** Bugs that only MySQL shows: its servers alone. */
const CONTRACT = 'test/contract/store-mysql.spec.ts';

export const MYSQL = [
  {
    name: 'mysql-locks-the-list-too',
    breaks: 'a statement that locks a join locks the list as well, which MySQL refuses',
    file: 'lib/store/mysql/capabilities.ts',
    from: '`for update /*!80001 of ${alias} */`',
    to: '`for update${alias.slice(0, 0)}`',
    contract: CONTRACT,
    chaos: false,
  },
  {
    name: 'mysql-time-as-bytes',
    breaks: 'the time of a probe comes as bytes, and no range is ever seen to be clean',
    file: 'lib/store/mysql/ready/ready.ts',
    from: 'cast(utc_timestamp(6) as char), @@',
    to: 'utc_timestamp(6), @@',
    contract: CONTRACT,
    chaos: false,
  },
  {
    name: 'mysql-sorts-all-dead',
    breaks: 'a look for the first death sorts all that died, as MySQL does for the last column of an index alone',
    file: 'lib/store/mysql/ops/clean.ts',
    from: 'order by p.transport, p.state, p.announced, p.died_at limit 1',
    to: 'order by p.died_at limit 1',
    contract: 'test/integration/mysql/plans.spec.ts',
    chaos: false,
  },
  {
    name: 'mysql-transaction-that-may-idle',
    breaks: 'a process that stands still in a transaction keeps its leases locked for as long as it does, on MySQL',
    file: 'lib/store/mysql/capabilities.ts',
    from: 'begin: `set session autocommit = 0, ${waitTimeout(milliseconds)}`',
    to: 'begin: `set session autocommit = 0, ${IDLE}`',
    simulation: false,
    contract: 'test/integration/database/contention.spec.ts',
    chaos: false,
  },
  {
    name: 'mysql-session-that-may-not-idle',
    breaks:
      'the bound of a transaction stays behind its end, and the server ends sessions that wait for work, on MySQL',
    file: 'lib/store/mysql/capabilities.ts',
    from: 'commit: `set session autocommit = 1, ${IDLE}`',
    to: 'commit: `set session autocommit = 1`',
    simulation: false,
    contract: 'test/integration/mysql/executor.spec.ts',
    chaos: false,
  },
];
