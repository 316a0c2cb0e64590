/** Hands of operators, tests and migrations. */
export const HANDS = [
  {
    name: 'discard-takes-what-waits',
    breaks: 'discard and requeue by a filter take healthy messages that wait behind the dead one as well',
    file: 'lib/enqueue/selection.ts',
    from: "return mayCount(operation) && ids === undefined ? { states: ['dead'] } : {};",
    to: 'return {};',
    contract: 'test/unit/enqueue-operators.spec.ts',
  },
  {
    name: 'postgres-discard-of-any-state',
    breaks: 'PostgreSQL: the states of a filter are forgotten',
    file: 'lib/store/postgres/admin.ts',
    from: 'plainArray(statesOf(change, filter).map(',
    to: 'plainArray(statesOf(change, {}).map(',
    contract: 'test/contract/store-postgres.spec.ts',
  },
  {
    name: 'revert-drops-what-waits',
    breaks: 'reverting the migration drops messages that are not published',
    file: 'lib/store/schema/migrations.ts',
    from: "way === 'down' && scripts === TABLES && !dropUnpublished",
    to: 'false as boolean',
    contract: 'test/integration/migrations.spec.ts',
  },
].map((mutant) => ({ chaos: false, ...mutant }));
