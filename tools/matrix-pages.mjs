// The lists of versions in the pages, written from the last runs of the matrix.
const BEGIN = '<!-- versions: written by npm run matrix -->';
const END = '<!-- /versions -->';

/** One line for each product: the versions whose last run was clean, oldest first. */
export function versionLines(results) {
  const clean = Object.values(results).filter(({ failed, skipped, passed }) => failed + skipped === 0 && passed > 0);
  const products = [...new Set(clean.map(({ product }) => product))];
  return products.map((product) => {
    const versions = clean.filter((result) => result.product === product).map(({ version }) => version);
    return `${product} ${[...new Set(versions)].sort(byNumber).join(', ')}`;
  });
}

function byNumber(one, other) {
  return one.localeCompare(other, 'en', { numeric: true });
}

/** The page with the text between its marks made anew. */
export function withVersionLines(page, lines) {
  const from = page.indexOf(BEGIN);
  const to = page.indexOf(END);
  if (from === -1 || to < from) throw new Error('The page has no place for the versions.');
  return `${page.slice(0, from + BEGIN.length)}\n\n${lines.map((line) => `- ${line}`).join('\n')}\n\n${page.slice(to)}`;
}

const HEAD = `# What was run of each data layer and each broker

Written by \`npm run matrix\`. Numbers are tests that passed on a real server; none failed, and none was skipped.
`;
const chaosOf = ({ chaos = '-' }) => chaos;

/** A page: data layers by database, and brokers, each with what passed of it in its last clean run. */
export function roleTables(cells, results) {
  const clean = cells.filter(({ name }) => results[name]?.failed === 0 && results[name].roles !== undefined);
  const rowsOf = (of, roles, more = () => []) =>
    clean
      .filter((cell) => cell.of === of)
      .flatMap((cell) => {
        const { product, version, date, commit, roles: found } = results[cell.name];
        return Object.entries(found).map(([database, counts]) =>
          [`${product} ${version}`, ...(database === '' ? [] : [database]), ...roles.map((role) => counts[role] ?? '-')]
            .concat(more(cell), [date, `\`${commit}\``])
            .join(' | '),
        );
      });
  const table = (head, rows) =>
    [head, head.map(() => '---'), ...rows.map((row) => [row])].map((row) => `| ${row.join(' | ')} |`).join('\n');
  const [layer, broker] = [
    ['enqueue', 'relay', 'inbox'],
    ['contract', 'faults'],
  ];
  const layers = table(['data layer', 'database', ...layer, 'date', 'commit'], rowsOf('data layer', layer));
  const brokers = table(
    ['broker', 'contract', 'faults and options', 'chaos', 'date', 'commit'],
    rowsOf('broker', broker, (cell) => [chaosOf(cell)]),
  );
  return `${HEAD}\n${layers}\n\n${brokers}\n\nChaos: [results.md](../chaos/results.md).\n`;
}
