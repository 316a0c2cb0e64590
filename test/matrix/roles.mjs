// A reporter of Jest: how many tests passed of each database and each role of a data layer, or of each role of a broker.
import { writeFileSync } from 'node:fs';

const DATABASES = { postgres: 'PostgreSQL', mariadb: 'MariaDB', mysql: 'MySQL' };

function placeOf(path, { ancestorTitles }) {
  const titles = ancestorTitles.join(' ');
  if (!path.includes('/contract/data-layer-')) return ['', path.includes('/contract/') ? 'contract' : 'faults'];
  const kind = /postgres|mariadb|mysql(?!2)/i.exec(titles)?.[0].toLowerCase();
  return [DATABASES[kind], /relay:/.test(titles) ? 'relay' : ancestorTitles.includes('inbox') ? 'inbox' : 'enqueue'];
}

export default class Roles {
  onRunComplete(_contexts, { testResults }) {
    const counts = {};
    for (const { testFilePath, testResults: tests } of testResults)
      for (const test of tests.filter(({ status }) => status === 'passed')) {
        const [database, role] = placeOf(testFilePath, test);
        if (database === undefined) continue; // of the library alone
        counts[database] ??= {};
        counts[database][role] = (counts[database][role] ?? 0) + 1;
      }
    writeFileSync(process.env.OUTBOX_MATRIX_ROLES, JSON.stringify(counts));
  }
}
