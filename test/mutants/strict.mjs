/**
 * Bugs in `ordering: 'strict'`, which the logs of the servers convict: `test/integration/strict-*.spec.ts`. Chaos knows less than these
 * logs: nothing of two COMMITs that were on their way at the same time, so that it sees only numbers that were drawn before.
 */
const POSTGRES = 'lib/store/postgres/schema/strict.ts';
const MYSQL = 'lib/store/mysql/ready/insert.ts';
const TAKE = `    await this.keyLocks?.take(tx, ready); // before the first number is drawn
    for (const rows of chunks(ready)) await write(tx, this.sql.ready(rows.length).bind(...rows.flatMap(common)));
`;

export const STRICT = [
  {
    name: 'strict-like-key',
    breaks: 'PostgreSQL: keyed messages take their number when they are enqueued, as with `key`',
    file: 'lib/store/postgres/ready/insert.ts',
    from: "return this.strict && message.key !== null ? 'staged' : 'ready';",
    to: "return 'ready';",
    contract: 'test/integration/postgres/strict.spec.ts',
    chaos: { ordering: 'strict', faults: ['relay-kill', 'broker-refuse'] },
    every: true,
  },
  {
    name: 'strict-without-lock',
    breaks: 'PostgreSQL: commits of one key give out numbers side by side',
    file: POSTGRES,
    from: 'perform pg_advisory_xact_lock(hash) from unnest(locks) hash;',
    to: 'null;',
    contract: 'test/integration/postgres/strict.spec.ts',
  },
  {
    name: 'strict-gate-ignored',
    breaks: 'PostgreSQL: a transaction of many keys locks nothing against those of few',
    file: POSTGRES,
    from: 'perform pg_advisory_xact_lock_shared(${gate});',
    to: 'null;',
    contract: 'test/integration/postgres/strict-rules.spec.ts',
  },
  {
    name: 'strict-locks-unsorted',
    breaks: 'PostgreSQL: commits lock their keys in any order, and deadlock',
    file: POSTGRES,
    from: 'array_agg(k.hash order by k.hash)',
    to: 'array_agg(k.hash order by random())',
    contract: 'test/integration/postgres/strict-rules.spec.ts',
  },
  {
    name: 'strict-not-deferred',
    breaks: 'PostgreSQL: numbers are given out at the insert, and keys locked for the whole transaction',
    file: POSTGRES,
    from: 'deferrable initially deferred',
    to: 'deferrable initially immediate',
    contract: 'test/integration/postgres/strict.spec.ts',
  },
  {
    name: 'strict-number-before-lock',
    breaks: 'MariaDB: a number is drawn, then its key locked',
    file: MYSQL,
    from: TAKE,
    to: TAKE.split('\n').slice(0, 2).reverse().join('\n') + '\n',
    contract: 'test/integration/mysql/strict-mariadb.spec.ts',
  },
].map((mutant) => ({ chaos: false, ...mutant }));
