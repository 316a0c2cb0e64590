/**
 * `npm run test:fast`: the daily loop. Unit tests, the tests of the pages, and a few that take one message through each stage on a
 * database. It needs no broker. Each line is a pattern of Jest's for paths from the root of the repository.
 */
export const FAST = [
  'test/unit/',
  'test/readme/(?!nest-consumer)',
  'test/contract/transport-in-process',
  'test/integration/enqueue/(transactions|savepoints|atomicity)\\.',
  'test/integration/operators/(gone|error-history)\\.',
  'test/integration/schema/migrations\\.',
  'test/nest/(module|relay|in-process)\\.',
];

/**
 * @param results `testResults` of Jest's report in JSON
 * @returns the files of which no test ran: they need more than a PostgreSQL, and do not belong into the list
 */
export function filesThatRanNothing(results) {
  return results
    .filter(({ assertionResults }) => assertionResults.length > 0)
    .filter(({ assertionResults }) => assertionResults.every(({ status }) => status === 'pending'))
    .map(({ name }) => name);
}
